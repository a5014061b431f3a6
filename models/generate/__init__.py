"""Generation with UniLM: `search` finds the best targets, `decoder` predicts their next tokens; `split` does so for
a whole split, and `spelling` makes text of tokens."""
