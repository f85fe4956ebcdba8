"""The daemon's socket and loopback port, and the files that give clients their addresses."""

from __future__ import annotations

import json
import os
import shlex
import socket
import sys

from corral import PROTOCOL, __version__
from corral.config.links import make_own_folder
from corral.config.ownership import write_private
from corral.config.paths import Project, socket_path
from corral.core.clock import now
from corral.core.instants import iso
from corral.core.logs import logger
from corral.daemon.instance import private_folder
from corral.faces.http.access import make_token

log = logger("daemon")


class Listeners:
    """The project's socket, port and token. The caller holds the lock of the project.

    Args:
        project: Its ``run/`` holds them.
        port: Loopback TCP port; 0, or one that is taken: any free one. None: the Unix socket alone.
    """

    def __init__(self, project: Project, port: int | None) -> None:
        self._project = project
        self.path = socket_path(project)
        self._command = project.run_dir / "bin" / "corral"
        self.token = make_token(project.token_file)
        self.unix = self._listen()
        self._tcp = None if port is None else _loopback(port)

    @property
    def sockets(self) -> list[socket.socket]:
        """The listening sockets."""
        return [self.unix, *([self._tcp] if self._tcp is not None else [])]

    @property
    def is_open(self) -> bool:
        """Whether clients can still find the daemon: the socket at the path is its own, and the files are beside it."""
        files = (self._project.daemon_json, self._project.token_file, self._command)
        return self.has_socket and all(file.exists() for file in files)

    @property
    def has_socket(self) -> bool:
        """Whether the socket at the path is the one that we listen on."""
        try:
            return self.path.lstat().st_ino == self._inode
        except FileNotFoundError:
            return False

    def listen_again(self) -> socket.socket:
        """Listen again after somebody removed the socket; open connections stay."""
        private_folder(self.path.parent)
        self.unix = self._listen()
        return self.unix

    def announce(self) -> None:
        """Write the files that clients read, each atomically."""
        private_folder(self._project.run_dir)
        write_private(self._project.token_file, self.token + "\n")
        host, port = self._tcp.getsockname()[:2] if self._tcp is not None else (None, None)
        address = {
            "pid": os.getpid(),
            "socket": str(self.path),
            "host": host,
            "port": port,
            "address": f"http://{host}:{port}" if port is not None else None,
            "version": __version__,
            "protocol": PROTOCOL,
            "started_at": iso(now()),
        }
        write_private(self._project.daemon_json, json.dumps(address) + "\n")
        self._project.stopped_file.unlink(missing_ok=True)
        # For workers, whatever their PATH: the plugin starts its bridge as `corral mcp`.
        make_own_folder(self._command.parent, self._project.run_dir)
        write_private(self._command, f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m corral "$@"\n')
        self._command.chmod(0o700)

    def _listen(self) -> socket.socket:
        """Listen on the project's socket; an existing file was left by a dead daemon."""
        self.path.unlink(missing_ok=True)
        listening = _listen_on(socket.AF_UNIX, str(self.path))
        self.path.chmod(0o600)
        self._inode = self.path.lstat().st_ino
        return listening


def _loopback(port: int) -> socket.socket:
    """Listen on loopback TCP; any free port if the one that was configured is taken."""
    for candidate in dict.fromkeys((port, 0)):
        try:
            return _listen_on(socket.AF_INET, ("127.0.0.1", candidate))
        except OSError as error:
            log.warning("port_taken", port=candidate, error=str(error))
    raise OSError("no loopback port is free")


def _listen_on(family: socket.AddressFamily, address: str | tuple[str, int]) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError:
        listening.close()
        raise
    listening.listen(512)
    listening.setblocking(False)
    return listening
