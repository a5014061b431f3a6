"""From a stream's rows to a model's batch: views, masked tokens, packing, padding."""
