"""A stand-in for Kubernetes' API server: it keeps the Jobs that it is sent and runs their commands on this machine.

It proves what is sent, and that the command in it does its work where paths are the same. It is no Kubernetes.
"""

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs


@dataclass
class Api:
    """What came, and the processes that stand for pods; ``folder`` gets a kubeconfig and an empty work directory."""

    folder: Path
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    secrets: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig.json"

    def pod(self, name: str) -> dict[str, Any]:
        """The pod that a Job asks for."""
        return self.jobs[name]["spec"]["template"]["spec"]

    def start(self, job: dict[str, Any]) -> None:
        name = job["metadata"]["name"]
        self.jobs[name] = job
        container = self.pod(name)["containers"][0]
        log = (self.folder / f"{name}.log").open("wb")
        self.processes[name] = subprocess.Popen(
            [*container["command"], *container["args"]], cwd=self.folder / "workdir", stdout=log, stderr=log
        )
        log.close()

    def log(self, name: str) -> str:
        """What the pod of a Job wrote."""
        return (self.folder / f"{name}.log").read_text()

    def status_of_pod(self, name: str) -> dict[str, Any]:
        """Of the pod of a Job: its container runs or has ended."""
        code = self.processes[name].poll()
        state = {"running": {}} if code is None else {"terminated": {"exitCode": code}}
        container = {"name": "snakemake", "image": "", "imageID": "", "ready": False, "restartCount": 0, "state": state}
        return {"metadata": {"name": name}, "status": {"containerStatuses": [container]}}

    def status(self, name: str) -> dict[str, int]:
        code = self.processes[name].poll()
        return {"active": 1} if code is None else {"failed": 1} if code else {"succeeded": 1}


@contextmanager
def serving(folder: Path) -> Iterator[Api]:
    """Serve on a free port of loopback; what still runs at the end is killed."""
    api = Api(folder)
    (folder / "workdir").mkdir()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self, values: dict[str, Any] | str, status: int = 200) -> None:
            content = json.dumps(values).encode() if isinstance(values, dict) else values.encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path.endswith("/secrets"):
                api.secrets.append(body["metadata"]["name"])
            elif self.path.endswith("/jobs"):
                api.start(body)
            self._answer(body)

        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            options = parse_qs(query)
            if path.endswith("/status"):
                name = path.split("/")[-2]
                self._answer({"metadata": {"name": name}, "status": api.status(name)})
            elif path.endswith("/pods"):
                [label] = options["labelSelector"]
                self._answer({"items": [api.status_of_pod(label.removeprefix("job-name="))]})
            elif options.get("previous") == ["True"]:
                self._answer({"message": "previous terminated container not found"}, 400)  # it never restarts
            else:
                self._answer(api.log(path.split("/")[-2]))

        def do_DELETE(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            api.deleted.append(self.path.split("?")[0].split("/")[-1])
            self._answer({"status": "Success"})

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    api.kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "test",
                "clusters": [{"name": "test", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
                "users": [{"name": "test", "user": {}}],
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            }
        )
    )
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        for process in api.processes.values():
            process.kill()
            process.wait()


def environment(api: Api, plugins: Path) -> dict[str, str]:
    """The main process's: it knows the API server, and where the profile's executor is."""
    path = os.pathsep.join([str(plugins), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "KUBECONFIG": str(api.kubeconfig), "PYTHONPATH": path}
