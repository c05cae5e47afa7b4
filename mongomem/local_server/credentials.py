"""Who may use the server: the key in the data directory, and the passwords that come from it.

The key file is what mongod reads as its ``--keyFile``: with it the nodes know each other, and with
it this user is ``__system``, who can do all that a node can. That is how a server without users
gets its first one: the localhost exception, by which anybody on the machine could be quicker, is
off. Programs are given the password of another user, which is computed from the key. So there is
one secret on the disk, and no crash and no restored backup can leave two that disagree: whatever
the server knows, its user is given the password of the key.
"""

from __future__ import annotations

import hmac
import re
import secrets
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import pbkdf2_hmac, sha256
from pathlib import Path
from typing import Any

from mongomem.local_server.ownership import own_file, write_own

KEY_FILE = "keyfile"
USER = "mongomem"

_MECHANISM = "SCRAM-SHA-256"
_KEY = re.compile(rb"[0-9a-f]{64}")
_PURPOSE = b"the password of the user mongomem"
"""Another purpose would give another secret of the same key."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The key of a data directory, and what is computed from it."""

    key: str = field(repr=False)
    key_file: Path

    @property
    def password(self) -> str:
        """The password of `USER`. It tells nothing of the key."""
        return hmac.new(self.key.encode(), _PURPOSE, "sha256").hexdigest()

    def are_those_of(self, user: Mapping[str, Any]) -> bool:
        """Tell whether a document of ``admin.system.users`` has this password and may do
        everything.
        """
        if {"role": "root", "db": "admin"} not in user["roles"] or _MECHANISM not in user[
            "credentials"
        ]:
            return False
        scram = user["credentials"][_MECHANISM]
        # RFC 5802, section 3
        salted = pbkdf2_hmac(
            "sha256", self.password.encode(), b64decode(scram["salt"]), scram["iterationCount"]
        )
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        return hmac.compare_digest(sha256(client_key).digest(), b64decode(scram["storedKey"]))

    def uri(self, hosts: Sequence[str], replica_set: str) -> str:
        """Write the connection string of `USER`."""
        return f"mongodb://{USER}:{self.password}@{','.join(hosts)}/?replicaSet={replica_set}&authSource=admin"

    def of_user(self) -> Mapping[str, Any]:
        """Give the options of a client that is `USER`."""
        return {
            "username": USER,
            "password": self.password,
            "authSource": "admin",
            "authMechanism": _MECHANISM,
        }

    def of_system(self) -> Mapping[str, Any]:
        """Give the options of a client that is ``__system``, whom mongod knows by its key file
        before any user.
        """
        return {
            "username": "__system",
            "password": self.key,
            "authSource": "local",
            "authMechanism": _MECHANISM,
        }


def read_credentials(data_dir: Path) -> Credentials:
    """Read the key of a data directory. A missing or damaged key is made anew. Under its lock.

    Raises:
        UntrustedPathError: Somebody else can have written the key.
    """
    path = data_dir / KEY_FILE
    try:
        with open(path, "rb", opener=own_file) as file:
            key = file.read(1000).strip()
    except FileNotFoundError:
        key = b""
    if not _KEY.fullmatch(key):
        key = secrets.token_hex(32).encode()
        write_own(path, key)
    return Credentials(key.decode(), path)
