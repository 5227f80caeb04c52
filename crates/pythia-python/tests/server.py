"""A server for tests: `pythia serve` in a process of its own."""

import os
import queue
import re
import subprocess
import tempfile
import threading
from pathlib import Path

_SECONDS = 30


def program():
    """Returns the path of the program: the one that was built next to the module, or that of PYTHIA_PROGRAM."""
    given = os.environ.get("PYTHIA_PROGRAM")
    if given:
        return Path(given)
    import pythiadb._pythiadb as module

    # target/debug/deps/lib_pythiadb.so is beside target/debug/pythia.
    return Path(module.__file__).resolve().parent.parent / "pythia"


class Server:
    """A server with an empty dataset `ds`, and the settings of a configuration file."""

    def __init__(self, settings="", *options):
        if not program().exists():
            raise FileNotFoundError(f"{program()} is missing: run cargo test first, or set PYTHIA_PROGRAM")
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        config = folder / "pythia.toml"
        dataset = f'[datasets.ds]\npath = "{folder}/store"\ncreate = true\ndefault = true\n'
        config.write_text(dataset + settings)
        command = [program(), "serve", "--config", config, "--bind", "127.0.0.1:0", *options]
        # What the machine is told must not matter here.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHIA_SERVE")}
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        lines = queue.SimpleQueue()
        self._seen = []
        self._reader = threading.Thread(target=self._read, args=(lines,), daemon=True)
        self._reader.start()
        try:
            address = lines.get(timeout=_SECONDS)
        except queue.Empty:
            address = None
        if address is None:
            self.stop()
            raise AssertionError("the server did not start:\n" + "".join(self._seen))
        self.url = f"http://{address}/ds"

    def _read(self, lines):
        for line in self._process.stderr:
            self._seen.append(line)
            if found := re.search(r"addresses\W+\[([^\],]+)", line):
                lines.put(found[1].strip('"'))
        lines.put(None)

    def stop(self):
        """Ends the server."""
        self._process.terminate()
        try:
            self._process.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        self._process.stderr.close()
        self._folder.cleanup()
