"""The connectors 'datagen' and 'nexmark': rows that are made up."""
