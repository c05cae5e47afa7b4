"""Both memories of a LangGraph application in MongoDB."""
