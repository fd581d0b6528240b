# SPDX-License-Identifier: BSD-3-Clause
"""The example, run by ``flwr run``: simulated, and deployed on this machine.

OMP_NUM_THREADS=1 python -m pytest -m slow -s tests/channels/test_deployment.py
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import joblib
import numpy as np
import pytest
from helpers.flower import NAMES, in_one_process, member
from threadpoolctl import threadpool_limits

from skgems import GEMSLogisticAggregator
from skgems.federation import Nodes, reply_to

pytest.importorskip("flwr", exc_type=ImportError)
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
# Results must not depend on how many threads share a sum.
ENV = {
    "OMP_NUM_THREADS": "1",
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
}
HERE = "127.0.0.1"
TIMEOUT = 90  # of the example


def free_port():
    with socket.socket() as place:
        place.bind((HERE, 0))
        return place.getsockname()[1]


def wait_until(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} took more than {seconds} s"
        time.sleep(0.2)


class Site:
    """Programs of Flower that run in a folder, each with a log, until the test ends."""

    def __init__(self, folder):
        self.folder = folder
        self.programs = {}
        self.link = f"{HERE}:{free_port()}"
        self.to = folder / "fitted.joblib"
        (folder / "home").mkdir()
        path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
        own = {"FLWR_HOME": str(folder / "home"), "PATH": path}
        own |= {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
        self.env = os.environ | ENV | own

    def start(self, name, program, *args):
        with open(self.folder / f"{name}.log", "w") as log:
            self.programs[name] = subprocess.Popen(
                [BIN / program, *map(str, args)],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.env,
                cwd=self.folder,
                start_new_session=True,
            )

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def kill(self, name, by=signal.SIGKILL):
        try:
            os.killpg(self.programs[name].pid, by)
        except ProcessLookupError:
            pass

    def superlink(self, *args, secure):
        host, port = self.link.split(":")
        self.start(
            *("superlink", "flower-superlink", "--host", host, "--port", port), *args
        )
        lines = ["[superlink]", 'default = "here"']
        lines += ["[superlink.here]", f'address = "{self.link}"']
        ca = f'root-certificates = "{self.folder}/server.crt"'
        lines.append(ca if secure else "insecure = true")
        (self.folder / "home" / "config.toml").write_text("\n".join(lines))
        wait_until(self.listens, 60, "starting the SuperLink")

    def listens(self):
        host, port = self.link.split(":")
        with socket.socket() as place:
            return place.connect_ex((host, int(port))) == 0

    def flwr(self, *args):
        command = [BIN / "flwr", *map(str, args)]
        options = {"env": self.env, "cwd": self.folder, "timeout": 120}
        run = subprocess.run(command, capture_output=True, text=True, **options)
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout

    def run_example(self, *args, n_rounds):
        app = self.folder / "app"
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "examples" / "flower", app, ignore=ignore)
        config = f'n-rounds={n_rounds} to="{self.to}"'
        self.flwr("run", app, "here", "--run-config", config, *args)

    def fitted(self, seconds=500):
        failed = ("Traceback", "ImportError")
        wait_until(
            lambda: self.to.exists() or any(f in self.log("superlink") for f in failed),
            seconds,
            "the run",
        )
        time.sleep(1)  # until it is written
        assert self.to.exists(), self.log("superlink")[-4000:]
        return joblib.load(self.to)


@pytest.fixture
def site(tmp_path):
    site = Site(tmp_path)
    yield site
    for by, pause in ((signal.SIGTERM, 3), (signal.SIGKILL, 0)):
        for name in site.programs:
            site.kill(name, by)
        time.sleep(pause)
    for program in site.programs.values():
        program.wait(10)


def pair_of_keys(folder, name):
    """An elliptic key, and its public half as OpenSSH writes it."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP384R1())
    secret = form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption()
    (folder / f"{name}.key").write_bytes(key.private_bytes(*secret))
    public = key.public_key().public_bytes(
        form.Encoding.OpenSSH, form.PublicFormat.OpenSSH
    )
    (folder / f"{name}.pub").write_bytes(public)


def certificate(folder):
    """A certificate of this machine for two days, which vouches for itself."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP384R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    places = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address(HERE))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .add_extension(x509.SubjectAlternativeName(places), False)
        .sign(key, hashes.SHA256())
    )
    (folder / "server.crt").write_bytes(made.public_bytes(form.Encoding.PEM))
    secret = form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()
    (folder / "server.pem").write_bytes(key.private_bytes(*secret))


def tell(case, fitted):
    print(f"\n{case}: nodes {fitted.node_names_}")
    for entry in fitted.history_:
        sizes = f"{entry['bytes_sent']} B out, {entry['bytes_received']} B back"
        print(f"  {entry['task']}: {entry['seconds']:.1f} s, {sizes}", end="")
        print(f", left out {entry['left_out']}")


@pytest.mark.parametrize("case", ["all", "unregistered", "killed"])
def test_a_deployment_gives_what_one_process_gives(case, site):
    folder, n_rounds = site.folder, 8 if case == "killed" else 3
    certificate(folder)
    site.superlink(
        *("--ssl-ca-certfile", folder / "server.crt"),
        *("--ssl-certfile", folder / "server.crt"),
        *("--ssl-keyfile", folder / "server.pem"),
        "--enable-supernode-auth",
        secure=True,
    )
    expected = NAMES[:2] if case == "unregistered" else NAMES
    for name in NAMES:
        own = member(name)
        np.savez(folder / f"{name}.npz", X=own["X"], y=own["y"])
        joblib.dump(own["estimator"], folder / f"{name}.joblib")
        pair_of_keys(folder, name)
        if name in expected:
            site.flwr("supernode", "register", folder / f"{name}.pub", "--name", name)
        config = f'name="{name}" rows="{folder}/{name}.npz"'
        site.start(
            *(name, "flower-supernode", "--superlink", site.link),
            *("--root-certificates", folder / "server.crt", "--port", free_port()),
            *("--auth-supernode-private-key", folder / f"{name}.key"),
            *("--node-config", f'{config} model="{folder}/{name}.joblib"'),
        )
    wait_until(
        lambda: site.flwr("supernode", "list").count("online") >= len(expected),
        120,
        "connecting the nodes",
    )
    if case == "unregistered":
        refused = 'activate-node HTTP/1.1" 412'
        wait_until(lambda: refused in site.log("superlink"), 60, "refusing a node")
    began = time.perf_counter()
    site.run_example(n_rounds=n_rounds)
    if case == "killed":  # after its name and the first reply, in the third letter
        wait_until(lambda: received(site.log("rome")) >= 3, 300, "the third letter")
        site.kill("rome")
    fitted = site.fitted()
    tell(f"{case}, {time.perf_counter() - began:.0f} s in all", fitted)
    tasks = [entry["task"] for entry in fitted.history_]
    left_out = [entry["left_out"] for entry in fitted.history_]
    if case == "killed":
        assert tasks[1] == "evaluate" and len(tasks) > 3
        assert left_out == [[], ["rome"], *([] for _ in tasks[2:])]
        # It is waited for once, until the SuperLink knows or the timeout is over.
        assert max(own["seconds"] for own in fitted.history_[2:]) < TIMEOUT / 2
    else:
        assert fitted.node_names_ == expected and not any(left_out)
    agg = GEMSLogisticAggregator(n_rounds=n_rounds, random_state=0)
    with threadpool_limits(1):
        if case == "killed":
            with pytest.warns(UserWarning, match="'rome' failed twice in message 2"):
                direct = agg.set_params(estimators=Nodes(ask_until_killed, NAMES)).fit()
        else:
            direct = in_one_process(agg, [member(name) for name in expected])
    np.testing.assert_array_equal(fitted.coef_, direct.coef_)
    np.testing.assert_array_equal(fitted.intercept_, direct.intercept_)


def ask_until_killed(requests):
    """Replies of one process, of which one node replies to the first request only."""
    replies = {}
    for name, request in requests.items():
        if name == "rome" and request.task != "join":
            replies[name] = OSError("killed")
        else:
            replies[name] = reply_to(request, **member(name))
    return replies


def received(log):
    """How many letters a SuperNode says that it got."""
    return log.count("Received successfully")


def test_a_simulation_gives_what_one_process_gives(site, monkeypatch):
    pytest.importorskip("ray")
    site.superlink("--insecure", "--simulation", secure=False)
    began = time.perf_counter()
    size = "num-supernodes=3 client-resources-num-cpus=1"
    site.run_example("--federation-config", size, n_rounds=3)
    fitted = site.fitted()
    tell(f"simulated, {time.perf_counter() - began:.0f} s in all", fitted)
    monkeypatch.syspath_prepend(ROOT / "examples" / "flower")
    from hospitals.client import simulated

    agg = GEMSLogisticAggregator(n_rounds=3, random_state=0)
    with threadpool_limits(1):
        direct = in_one_process(agg, [simulated(k, 3) for k in range(3)])
    np.testing.assert_array_equal(fitted.coef_, direct.coef_)
    np.testing.assert_array_equal(fitted.intercept_, direct.intercept_)
