"""A server on this machine that behaves as badly as servers do."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CONTENTS = bytes(range(256)) * 2000


class Handler(BaseHTTPRequestHandler):
    """Answers as the path says: /good, /cut (ends half-way, twice), /busy (503, once), /stuck (stops half-way and holds
    the line), /slow (a byte now and then) and so on, or with what ``files`` has; 404 by default."""

    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, Server)
        start = int((self.headers["Range"] or "bytes=0-").removeprefix("bytes=").removesuffix("-"))
        server.requests.append((self.path, start))
        seen = sum(path == self.path for path, _ in server.requests)
        if self.path == "/busy" and seen == 1:
            self.send_error(503)
            return
        if self.path == "/stuck":
            self.send(CONTENTS, CONTENTS[: len(CONTENTS) // 2])
            self.wfile.flush()
            server.released.wait(60)
            return
        if self.path == "/slow":
            self.send(CONTENTS, b"")
            for byte in CONTENTS:
                if server.released.wait(0.02) or self.wfile.write(bytes([byte])) is None:
                    return
            return
        if contents := server.files.get(self.path):
            self.send(contents, contents)
            return
        if self.path not in ("/good", "/cut", "/cut-no-range", "/always-cut", "/busy"):
            self.send_error(404)
            return
        if self.path == "/cut-no-range":
            start = 0
        rest = CONTENTS[start:]
        cut = (self.path in ("/cut", "/cut-no-range") and seen < 3) or self.path == "/always-cut"
        self.send(rest, rest[: len(rest) // 2] if cut else rest, 206 if start else 200)

    def send(self, promised: bytes, sent: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(promised)))
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    requests: list[tuple[str, int]]
    released: threading.Event
    """Ends the answers of /stuck and /slow."""
    files: dict[str, bytes]
    """What further paths answer."""

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_port}{path}"


@contextmanager
def serving() -> Iterator[Server]:
    """A server while it answers."""
    with Server(("127.0.0.1", 0), Handler) as server:
        server.requests, server.files = [], {"/other": b"something else"}
        server.released = threading.Event()
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.released.set()
            server.shutdown()
            thread.join()
