"""`sqlwin advise`: which delay a watermark should have, from rows that have arrived."""
