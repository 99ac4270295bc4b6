"""Connectors 'datagen' and 'nexmark': generated rows."""
