"""Imports during requests, in an environment that has only the dependencies of the distribution."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = '''
import asyncio, importlib.metadata, re, sys


def closure(name, found):
    """Return the distributions that an installation of `name` brings, without extras."""
    name = re.sub("[-_.]+", "-", name).lower()
    if name not in found:
        found.add(name)
        for line in importlib.metadata.requires(name) or ():
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                closure(requirement.name, found)
    return found


from packaging.requirements import Requirement

installed = closure("chat-transport-httpx", set()) | closure("chat-testing", set())
modules = importlib.metadata.packages_distributions()
missing = {
    module
    for module, owners in modules.items()
    if not {re.sub("[-_.]+", "-", owner).lower() for owner in owners} & installed
}


class CountFailures:
    """Hide the modules of other distributions, and count the searches for modules that are not found."""

    def __init__(self):
        self.failed = []

    def find_spec(self, name, path=None, target=None):
        found = None
        if name.partition(".")[0] not in missing:
            finders = [finder for finder in sys.meta_path if finder is not self]
            found = next((spec for finder in finders if (spec := finder.find_spec(name, path, target))), None)
        if found is None:
            self.failed.append(name)
            raise ModuleNotFoundError(name=name)
        return found


for name in [name for name in sys.modules if name.partition(".")[0] in missing]:
    del sys.modules[name]
sys.meta_path.insert(0, counter := CountFailures())

from chat_testing.loopback import LoopbackServer
from chat_core.transport import Request
from chat_transport_httpx import HttpxTransport


def answer(exchange):
    exchange.answer(200, {"content-type": "application/json"}, b"{}")


async def main():
    transport = HttpxTransport(trust_env=False, verify=False)
    with LoopbackServer(answer) as server:
        for _ in range(3):
            await transport.send(Request("POST", "http", server.host, "/", body=b"{}"))
        counter.failed.clear()
        for _ in range(20):
            await transport.send(Request("POST", "http", server.host, "/", body=b"{}"))
        print(len(counter.failed), sorted(set(counter.failed)))
    await transport.aclose()


asyncio.run(main())
'''


def test_a_request_imports_no_missing_module() -> None:
    # A failed import is not cached: each one searches every folder of the path again.
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)

    assert done.stderr == ""
    assert done.stdout == "0 []\n"
