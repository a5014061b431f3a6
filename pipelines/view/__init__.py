"""Looking at what came out: one row (`inspect`), or figures of all of them (`stats`)."""
