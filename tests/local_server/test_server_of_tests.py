"""The server of this suite leaves nothing behind, whatever ends the process of the tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.waits import HANG_SECONDS, await_that

TESTS = Path(__file__).parents[1]

USES_THE_SERVER = """
def test_waits(mongo_client):
    told = mongo_client.admin.command("getCmdLineOpts")
    print("\\ndata:", told["parsed"]["storage"]["dbPath"], flush=True)
    input()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("ended_by", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_its_data_go_with_it(tmp_path: Path, ended_by: str) -> None:
    (tmp_path / "test_one.py").write_text(USES_THE_SERVER, "utf-8")
    environment = {key: value for key, value in os.environ.items() if key != "MONGODB_URI"}
    environment["PYTHONPATH"] = f"{TESTS.parent}{os.pathsep}{TESTS}"
    words = [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", "-s"]
    with subprocess.Popen(
        [*words, "--rootdir", str(tmp_path), str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment,
        # A suite that runs in the background hands on an ignored SIGINT.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as session:
        assert session.stdout is not None
        data = next(Path(line[6:-1]) for line in session.stdout if line.startswith("data: "))
        assert data.is_dir()
        session.send_signal(signal.Signals[ended_by])
        session.communicate(timeout=HANG_SECONDS)
    await_that(lambda: not data.parents[1].exists())
