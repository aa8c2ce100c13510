"""`make fresh`, as root: the README's commands in a Debian that has nothing but what the README names.

Each person has a home that nobody else may read, a clone of the commit that is checked out here, another
locale and another time zone. What runs there has processes and mounts of its own: nothing of it outlives its
command, and nothing is mounted on this machine. Debian's mirror, where registries are and which authorities
are trusted is this machine's own configuration, read when this runs.

Only the standard library: this runs before anything is set up. It ends with what came of each command; exit
code 1 when one failed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SUITE = "bookworm"
PACKAGES = ("ca-certificates", "git", "make", "python3", "python3-venv")
"""What the README says must be there; a test compares them."""
LOCALE, ZONE = "tr_TR.UTF-8", "Asia/Kathmandu"
"""Where the small letter of I is another, and hours begin a quarter before UTC's."""
HOMES = {"person": "/home/person", "root": "/root"}
CHECKOUT = Path(__file__).resolve().parents[1]
LIMIT_S = 3 * 3600

CONFIGURED = re.compile(
    r"(PIP|UV|NPM_CONFIG)_\w+|GO(PROXY|SUMDB|NOSUMDB|NOPROXY|PRIVATE)|(HTTPS?|NO|ALL)_PROXY"
    r"|\w*(CERT|CERTS|CERT_FILE|CAINFO|CA_BUNDLE)",
    re.IGNORECASE,
)
"""Variables that tell clients where registries are, and whom to trust."""
OF_A_MACHINE = ("/etc/pip.conf", "/etc/resolv.conf", "/etc/hosts")
OF_A_HOME = (".config/pip/pip.conf", ".config/uv/uv.toml", ".npmrc", ".config/go/env", ".m2/settings.xml")
"""Files that tell the same."""

INSIDE = """
mount --rbind "$1" "$1" && cd "$1" || exit
mount --rbind /sys sys && mount --rbind /dev dev && mount -t tmpfs tmpfs dev/shm || exit
user=$2 folder=$3
shift 3
/usr/sbin/chroot --userspec="$user:$user" . env -C "$folder" "$@"
exit $?
"""
"""What the first process there does. It stays root's: the kernel ends it, and all others, with unshare.

The folder becomes a mount, for Java asks which one its files are on.
"""
RESULT = re.compile(r"verified: |missing: |(=+ )?\d+ \w+(, \d+ \w+)* in \d|(FAILED|ERROR) \S+\.py")
LACKING = re.compile(r"=+ what this machine lacks =+")


@dataclass(frozen=True)
class Outcome:
    """How a command ended, and what it said of that."""

    command: str
    code: int
    seconds: float
    lines: list[str]

    def __str__(self) -> str:
        """It all, a line each."""
        minutes, seconds = divmod(round(self.seconds), 60)
        ended = f"{self.command}: exit code {self.code} after {minutes}:{seconds:02}"
        return "\n    ".join([ended, *self.lines])


def main() -> int:
    """Build that Debian, run what was asked for in it, and say what came of it."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--who", nargs="+", choices=HOMES, default=list(HOMES))
    parser.add_argument("--what", nargs="+", default=["demo", "test"], help="verbs of make")
    parser.add_argument("--root", type=Path, help="a folder for that Debian, which is used again")
    options = parser.parse_args()
    absent = [program for program in ("debootstrap", "unshare", "git") if shutil.which(program) is None]
    if os.geteuid() != 0 or absent:
        sys.stderr.write(f"missing: {', '.join(['root', *absent] if os.geteuid() else absent)}\n")
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # what was begun is ended, too
    outcomes = []
    with _folder(options.root) as root:
        _say(f"Debian {SUITE} with {', '.join(PACKAGES)} ...\n")
        build(root)
        for who in options.who:
            settle(root, who)
            outcomes += [run(root, who, "make", verb) for verb in options.what]
    _say("".join(f"\n{outcome}\n" for outcome in outcomes))
    return int(any(outcome.code for outcome in outcomes))


def build(root: Path) -> None:
    """Install that Debian into `root`, unless it is there."""
    if not (root / "done").exists():
        command = [
            "unshare",
            "--mount",
            "debootstrap",
            "--variant=minbase",
            f"--include={','.join((*PACKAGES, 'locales'))}",
        ]
        _quietly(*command, SUITE, str(root), *_mirror())
        language, encoding = LOCALE.split(".")
        _quietly("chroot", str(root), "localedef", "--no-archive", "-i", language, "-f", encoding, LOCALE)
        _quietly("chroot", str(root), "dpkg", "--purge", "locales")
        _quietly("chroot", str(root), "useradd", "--create-home", "-K", "HOME_MODE=0700", "person")
        (root / "done").touch()
    for file in (*OF_A_MACHINE, *_configured().values()):
        _copy(Path(file), root / file.lstrip("/"))


def settle(root: Path, who: str) -> None:
    """Give somebody an empty home of mode 0700, and a clone in it."""
    home = root / HOMES[who].lstrip("/")
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(mode=0o700)
    for name in OF_A_HOME:
        _copy(Path.home() / name, home / name)
    _quietly("git", "clone", "--quiet", "--no-local", str(CHECKOUT), str(home / "daggers"))
    _quietly("chroot", str(root), "chown", "--recursive", f"{who}:{who}", HOMES[who])


def run(root: Path, who: str, *command: str) -> Outcome:
    """Run a command in somebody's clone, and show what it says."""
    sbin = "/usr/local/sbin:/usr/sbin:/sbin:" if who == "root" else ""
    environment = {
        **_configured(),
        "HOME": HOMES[who],
        "USER": who,
        "LOGNAME": who,
        "SHELL": "/bin/bash",
        "PATH": f"{sbin}/usr/local/bin:/usr/bin:/bin",
        "LANG": LOCALE,
        "LC_ALL": LOCALE,
        "TZ": ZONE,
    }
    apart = ["unshare", "--mount", "--pid", "--ipc", "--fork", "--kill-child", f"--mount-proc={root}/proc"]
    inside = ["sh", "-c", INSIDE, "sh", str(root), who, f"{HOMES[who]}/daggers", *command]
    title = f"{who}: {' '.join(command)}"
    _say(f"\n{title}\n")
    begun = time.monotonic()
    lines: list[str] = []
    with subprocess.Popen(
        [*apart, *inside], env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    ) as process:  # fmt: skip
        assert process.stdout is not None
        limit = threading.Timer(LIMIT_S, process.kill)
        limit.start()
        try:
            for line in process.stdout:
                _say(line)
                lines.append(line.rstrip("\n"))
        except BaseException:
            process.kill()  # and with it all that it started: unshare heeds nothing less
            raise
        finally:
            limit.cancel()
    return Outcome(title, process.returncode, time.monotonic() - begun, results(lines))


def results(lines: Iterable[str]) -> list[str]:
    """What a command said of how it ended: results, failures, and what was skipped."""
    shown, lacking = [], False
    for line in lines:
        lacking = bool(LACKING.fullmatch(line)) or (lacking and not line.startswith("="))
        if (lacking and line) or RESULT.match(line):
            shown.append(line)
    return shown


def _mirror() -> list[str]:
    """Debian's mirror, as apt is configured here; empty where it is not for this version."""
    targets = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(CODENAME) $(REPO_URI)", "Created-By: Packages"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    known = (line.partition(" ") for line in targets.stdout.splitlines())
    return [uri for name, _, uri in known if name == SUITE][:1]


def _configured() -> dict[str, str]:
    """The variables, without those that name a folder of this machine."""
    return {
        name: value
        for name, value in os.environ.items()  # noqa: TID251 - how this machine reaches registries
        if CONFIGURED.fullmatch(name) and not Path(value).is_dir()
    }


def _copy(file: Path, to: Path) -> None:
    if file.is_file():
        to.parent.mkdir(parents=True, exist_ok=True)
        to.unlink(missing_ok=True)
        shutil.copy(file, to)


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _quietly(*command: str) -> None:
    """Run a command; what it printed is shown where it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}:\n{done.stdout}")


@contextmanager
def _folder(wanted: Path | None) -> Iterator[Path]:
    """The folder that was asked for, or one that is removed in the end."""
    if wanted is not None:
        wanted.mkdir(parents=True, exist_ok=True)
        yield wanted.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="daggers-fresh-", dir="/var/tmp") as folder:
        root = Path(folder)
        root.chmod(0o755)
        yield root


if __name__ == "__main__":
    sys.exit(main())
