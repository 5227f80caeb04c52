"""Children of this script: measured, bound to this machine's loopback, and never left behind.

Every child leads a session of its own, so that it and its children can be found and ended together.
It is ended when the script ends, by whatever way: normally, by an error, by Ctrl-C or SIGTERM (which
`raise_on_signals` turns into an exception), and, by the kernel, when the script is killed.
"""

import atexit
import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

SAMPLE_SECONDS = 0.05
STOP_SECONDS = 30
PR_SET_PDEATHSIG = 1
TICKS = os.sysconf("SC_CLK_TCK")

_running = []


class Failed(Exception):
    """A child did not do what it was started for."""


class Measured:
    """What a child cost: wall and CPU seconds, and the most memory it held."""

    def __init__(self, wall_s, cpu_s, peak_bytes):
        self.wall_s = wall_s
        self.cpu_s = cpu_s
        self.peak_bytes = peak_bytes


class Child:
    """A running process with its children; what it prints goes to a log file. With `output`, standard output goes there."""

    def __init__(self, command, log, cwd=None, env=None, output=None):
        self.command = [str(part) for part in command]
        self.log = Path(log)
        self.peak_bytes = 0
        self.rusage = None
        self._started = time.monotonic()
        with open(self.log, "ab") as log, open(output, "wb") if output else contextlib.nullcontext(log) as out:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=out, stderr=log,
                cwd=cwd, env=env, start_new_session=True, preexec_fn=_die_with_parent)
        self.pid = self.process.pid
        _running.append(self)
        self._ended = threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._sampler.start()

    def wait(self):
        """Waits for its end; raises if it failed. Gives what it cost."""
        _, status, rusage = os.wait4(self.pid, 0)
        wall_s = time.monotonic() - self._started
        code = os.waitstatus_to_exitcode(status)
        self._forget(code)
        if code != 0:
            raise Failed(f"{self.command[0]} ended with code {code}: {self.tail()}")
        # The kernel's own peak of one process, or our samples of all of them together.
        peak = max(self.peak_bytes, rusage.ru_maxrss * 1024)
        return Measured(wall_s, rusage.ru_utime + rusage.ru_stime, peak)

    def cpu_s(self):
        """CPU seconds so far, of it and the children it has waited for."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(int(field) for field in fields[11:15]) / TICKS

    def peak_now(self):
        """The most memory held so far."""
        return max(self.peak_bytes, _status_bytes(self.pid, "VmHWM"))

    def is_alive(self):
        """Whether it still runs."""
        if self in _running:
            try:
                self.check()
            except Failed:
                return False
        return self in _running

    def check(self):
        """Raises if it has ended."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            self._forget(code)
            raise Failed(f"{self.command[0]} ended early with code {code}: {self.tail()}")

    def stop(self):
        """Asks it to end, then makes it."""
        if self not in _running:
            return
        self.peak_bytes = self.peak_now()
        for sign in (signal.SIGTERM, signal.SIGKILL):
            _signal_group(self.pid, sign)
            deadline = time.monotonic() + STOP_SECONDS
            while time.monotonic() < deadline:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    _signal_group(self.pid, signal.SIGKILL)
                    self._forget(os.waitstatus_to_exitcode(status))
                    return
                time.sleep(0.02)

    def tail(self):
        """The last lines of its log."""
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return " | ".join(line.strip() for line in lines[-4:]) or "it said nothing"

    def _forget(self, code):
        self.process.returncode = code
        self._ended.set()
        if self in _running:
            _running.remove(self)

    def _sample(self):
        while not self._ended.wait(SAMPLE_SECONDS):
            total = sum(_status_bytes(pid, "VmRSS") for pid in _session(self.pid))
            self.peak_bytes = max(self.peak_bytes, total)


def run(command, log, cwd=None, env=None, output=None):
    """Runs a command to its end and gives what it cost."""
    child = Child(command, log, cwd, env, output)
    try:
        return child.wait()
    finally:
        child.stop()


def output(command):
    """The output of a short command; empty if it cannot be had."""
    try:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                              timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (done.stdout + done.stderr).strip()


def free_port():
    """A port of the loopback address that nothing listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def drop_page_cache():
    """Empties the system's page cache, written pages only: what is dirty is written first."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3", encoding="ascii")
    except PermissionError as error:
        raise Failed("--cold drops the system's page cache, which takes root") from error


def folder_bytes(folder):
    """Bytes that a folder's files take on the device: holes in sparse files take none."""
    total = 0
    for root, _, files in os.walk(folder):
        total += sum(os.lstat(os.path.join(root, name)).st_blocks * 512 for name in files)
    return total


def raise_on_signals():
    """Makes SIGTERM and SIGHUP end the script as Ctrl-C does: through `finally`. Ctrl-C too, where
    the shell has made it be ignored."""
    def interrupt(_number, _frame):
        raise KeyboardInterrupt
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, interrupt)


@atexit.register
def stop_all():
    """Ends every child that still runs."""
    for child in list(_running):
        child.stop()


def _die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _signal_group(pid, sign):
    try:
        os.killpg(pid, sign)
    except ProcessLookupError:
        pass


def _session(session):
    """Processes whose session is led by this one."""
    members = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                if os.getsid(int(entry)) == session:
                    members.append(int(entry))
            except OSError:
                pass
    return members


def _status_bytes(pid, field):
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
            for line in status:
                if line.startswith(field + ":"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0
