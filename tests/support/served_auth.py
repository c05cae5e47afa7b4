"""Who asks a `langgraph dev` of a test, and which items they find: a file by itself, which the
server imports.
"""

from __future__ import annotations

from typing import Any

from langgraph_sdk import Auth

auth = Auth()


@auth.authenticate
async def authenticate(authorization: str | None) -> Auth.types.MinimalUserDict:
    """Believe whoever says a name."""
    name = (authorization or "Bearer somebody").removeprefix("Bearer ")
    return {"identity": name, "permissions": ["read"], "is_authenticated": True}


@auth.on.store.search
async def own_items(ctx: Auth.types.AuthContext, value: Any) -> Any:
    """Let Gus find what is his, whatever he looks for."""
    return {"owner": "gus"} if ctx.user.identity == "gus" else None
