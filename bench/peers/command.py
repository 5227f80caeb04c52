"""What all benchmark scripts share: sizes, errors, the machine, records."""

import datetime
import json
import os
import platform
import sys
from pathlib import Path

from . import data, engines, processes
from .sparql_http import Refused

RESULTS = Path(__file__).resolve().parents[1] / "results"
# An engine that fails in one of these ways is left out; the others go on.
TROUBLE = (processes.Failed, data.Missing, Refused, OSError, ValueError, KeyError)


def size(text):
    """Bytes of a size such as 512M."""
    units = {"K": 10, "M": 20, "G": 30, "T": 40}
    text = text.strip().upper()
    if text and text[-1] in units:
        return int(float(text[:-1]) * (1 << units[text[-1]]))
    return int(text)


def guarded(measure, chosen):
    """Measures and returns the exit code. An error becomes one line, and all started processes end."""
    processes.raise_on_signals()
    try:
        return measure(chosen)
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130
    except TROUBLE as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    finally:
        processes.stop_all()


def occasion(machine):
    """When, how and on what something was measured."""
    return {
        "time": datetime.datetime.now().isoformat(timespec="seconds"),
        "command": sys.argv,
        "commit": processes.output(["git", "-C", data.REPOSITORY, "rev-parse", "HEAD"]),
        "machine": machine,
    }


def write_record(record, name, path=None):
    """Writes a record where it is wanted, or to bench/results under the time."""
    if path is None:
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"{datetime.datetime.now():%Y-%m-%d-%H%M%S}-{name}.json"
    Path(path).write_text(json.dumps(record, indent=1, ensure_ascii=False), encoding="utf-8")
    return path


def describe_machine():
    """Where the figures come from."""
    processor = platform.machine()
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            processor = line.partition(":")[2].strip()
            break
    return {
        "cores": engines.CORES,
        "processor": processor,
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": platform.platform(),
        "load_average": os.getloadavg()[0],
    }
