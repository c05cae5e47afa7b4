"""Long-term memory: namespaced items with filters, expiry and semantic search."""
