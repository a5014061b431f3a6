"""Generation with UniLM: `search` finds the best targets, `decoder` predicts their next tokens."""
