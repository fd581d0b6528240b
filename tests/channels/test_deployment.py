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
from helpers.flower import NAMES, fit_in_process, node_fields
from threadpoolctl import threadpool_limits

from skgems import GEMSLogisticAggregator
from skgems.asking import Nodes
from skgems.guard import reply_to

pytest.importorskip("flwr", exc_type=ImportError)
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
# Results must not depend on how many threads share a sum.
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
}
LOCALHOST = "127.0.0.1"
TIMEOUT = 90  # seconds, of the example


def free_port():
    with socket.socket() as connection:
        connection.bind((LOCALHOST, 0))
        return connection.getsockname()[1]


def wait_until(condition, *, seconds, activity):
    """Wait for a condition; ``activity`` is the subject of the error if it is late."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{activity} took more than {seconds} s"
        time.sleep(0.2)


class Site:
    """Programs of Flower that run in a folder, each with a log, until the test ends.

    They are on this machine, and reach each other at ``address``.
    """

    def __init__(self, folder):
        self.folder = folder
        self.programs = {}
        self.port = free_port()
        self.address = f"{LOCALHOST}:{self.port}"
        self.path_of_aggregate = folder / "fitted.joblib"
        (folder / "home").mkdir()
        self.environment = {
            **os.environ,
            **ENVIRONMENT,
            "FLWR_HOME": str(folder / "home"),
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "PYTHONWARNINGS": "ignore",
        }

    def start(self, name, program, *args):
        with open(self.folder / f"{name}.log", "w") as log:
            self.programs[name] = subprocess.Popen(
                [BIN / program, *map(str, args)],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment,
                cwd=self.folder,
                start_new_session=True,
            )

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def kill(self, name, signal_number=signal.SIGKILL):
        try:
            os.killpg(self.programs[name].pid, signal_number)
        except ProcessLookupError:
            pass

    def start_superlink(self, *args, secure):
        """Start Flower's server, and write where `flwr` finds it."""
        self.start(
            "superlink",
            "flower-superlink",
            "--host",
            LOCALHOST,
            "--port",
            self.port,
            *args,
        )
        security = "insecure = true"
        if secure:
            security = f'root-certificates = "{self.folder}/server.crt"'
        config = f"""
[superlink]
default = "here"
[superlink.here]
address = "{self.address}"
{security}
"""
        (self.folder / "home" / "config.toml").write_text(config)
        wait_until(self.listens, seconds=60, activity="starting the SuperLink")

    def listens(self):
        with socket.socket() as connection:
            return connection.connect_ex((LOCALHOST, self.port)) == 0

    def flwr(self, *args):
        """What the command `flwr` prints."""
        process = subprocess.run(
            [BIN / "flwr", *map(str, args)],
            capture_output=True,
            text=True,
            env=self.environment,
            cwd=self.folder,
            timeout=120,
        )
        assert process.returncode == 0, process.stdout + process.stderr
        return process.stdout

    def run_example(self, *args, n_rounds):
        app = self.folder / "app"
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "examples" / "flower", app, ignore=ignore)
        config = f'n-rounds={n_rounds} to="{self.path_of_aggregate}"'
        self.flwr("run", app, "here", "--run-config", config, *args)

    def run_has_ended(self):
        log = self.log("superlink")
        has_failed = "Traceback" in log or "ImportError" in log
        return has_failed or self.path_of_aggregate.exists()

    def wait_for_aggregate(self, seconds=500):
        """The aggregate that the example wrote at its end."""
        wait_until(self.run_has_ended, seconds=seconds, activity="the run")
        time.sleep(1)  # until it is written
        assert self.path_of_aggregate.exists(), self.log("superlink")[-4000:]
        return joblib.load(self.path_of_aggregate)


@pytest.fixture
def site(tmp_path):
    site = Site(tmp_path)
    yield site
    for name in site.programs:
        site.kill(name, signal.SIGTERM)
    time.sleep(3)
    for name in site.programs:
        site.kill(name, signal.SIGKILL)
    for program in site.programs.values():
        program.wait(10)


def write_pair_of_keys(folder, name):
    """Write an elliptic key, and its public half as OpenSSH has it."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP384R1())
    private_bytes = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    (folder / f"{name}.key").write_bytes(private_bytes)
    public_bytes = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    (folder / f"{name}.pub").write_bytes(public_bytes)


def write_certificate(folder):
    """Write a self-signed certificate of this machine for two days, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP384R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    address = x509.IPAddress(ipaddress.ip_address(LOCALHOST))
    alternative_names = x509.SubjectAlternativeName(
        [x509.DNSName("localhost"), address]
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .add_extension(alternative_names, False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "server.crt").write_bytes(certificate.public_bytes(pem))
    private_bytes = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "server.pem").write_bytes(private_bytes)


def print_history(case, fitted):
    print(f"\n{case}: nodes {fitted.node_names_}")
    for message in fitted.history_:
        print(
            f"  {message['task']}: {message['seconds']:.1f} s, "
            f"{message['bytes_sent']} B out, {message['bytes_received']} B back, "
            f"left out {message['left_out']}"
        )


def start_secure_superlink(site):
    write_certificate(site.folder)
    site.start_superlink(
        "--ssl-ca-certfile",
        site.folder / "server.crt",
        "--ssl-certfile",
        site.folder / "server.crt",
        "--ssl-keyfile",
        site.folder / "server.pem",
        "--enable-supernode-auth",
        secure=True,
    )


def start_nodes(site, *, registered):
    """Start all nodes; the SuperLink lets in those that are registered."""
    folder = site.folder
    for name in NAMES:
        fields = node_fields(name)
        np.savez(folder / f"{name}.npz", X=fields["X"], y=fields["y"])
        joblib.dump(fields["estimator"], folder / f"{name}.joblib")
        write_pair_of_keys(folder, name)
        if name in registered:
            site.flwr("supernode", "register", folder / f"{name}.pub", "--name", name)
        rows = f'rows="{folder}/{name}.npz"'
        model = f'model="{folder}/{name}.joblib"'
        site.start(
            name,
            "flower-supernode",
            "--superlink",
            site.address,
            "--root-certificates",
            folder / "server.crt",
            "--port",
            free_port(),
            "--auth-supernode-private-key",
            folder / f"{name}.key",
            "--node-config",
            f'name="{name}" {rows} {model}',
        )
    wait_until(
        lambda: site.flwr("supernode", "list").count("online") >= len(registered),
        seconds=120,
        activity="connecting the nodes",
    )


def check_equal_bits(fitted, in_process):
    np.testing.assert_array_equal(fitted.coef_, in_process.coef_)
    np.testing.assert_array_equal(fitted.intercept_, in_process.intercept_)


def check_is_that_of_one_process(fitted, names):
    """All messages had the replies of these nodes, and the aggregate is theirs."""
    assert fitted.node_names_ == names
    assert not any(message["left_out"] for message in fitted.history_)
    agg = GEMSLogisticAggregator(n_rounds=3, random_state=0)
    with threadpool_limits(1):
        in_process = fit_in_process(agg, [node_fields(name) for name in names])
    check_equal_bits(fitted, in_process)


def test_a_deployment_gives_what_one_process_gives(site):
    start_secure_superlink(site)
    start_nodes(site, registered=NAMES)
    site.run_example(n_rounds=3)
    fitted = site.wait_for_aggregate()
    print_history("deployed", fitted)
    check_is_that_of_one_process(fitted, NAMES)


def test_a_node_that_is_not_registered_takes_no_part(site):
    start_secure_superlink(site)
    start_nodes(site, registered=NAMES[:2])
    refusal = 'activate-node HTTP/1.1" 412'
    wait_until(
        lambda: refusal in site.log("superlink"),
        seconds=60,
        activity="refusing a node",
    )
    site.run_example(n_rounds=3)
    fitted = site.wait_for_aggregate()
    print_history("unregistered", fitted)
    check_is_that_of_one_process(fitted, NAMES[:2])


def test_a_node_that_is_killed_is_left_out_of_the_next_message(site):
    start_secure_superlink(site)
    start_nodes(site, registered=NAMES)
    site.run_example(n_rounds=8)
    # After its name and the first reply, in the third letter.
    wait_until(
        lambda: n_letters_received(site.log("rome")) >= 3,
        seconds=300,
        activity="the third letter",
    )
    site.kill("rome")
    fitted = site.wait_for_aggregate()
    print_history("killed", fitted)
    tasks = [message["task"] for message in fitted.history_]
    assert tasks[1] == "evaluate"
    assert len(tasks) > 3
    left_out = [message["left_out"] for message in fitted.history_]
    assert left_out == [[], ["rome"], *([] for _ in tasks[2:])]
    # It is waited for once, until the SuperLink knows or the timeout is over.
    assert max(message["seconds"] for message in fitted.history_[2:]) < TIMEOUT / 2
    channel = Nodes(ask_until_killed, NAMES)
    agg = GEMSLogisticAggregator(channel, n_rounds=8, random_state=0)
    with (
        threadpool_limits(1),
        pytest.warns(UserWarning, match="'rome' failed twice in message 2"),
    ):
        check_equal_bits(fitted, agg.fit())


def ask_until_killed(requests):
    """Replies of one process, of which one node replies to the first request only."""
    replies = {}
    for name, request in requests.items():
        if name == "rome" and request.task != "join":
            replies[name] = OSError("killed")
        else:
            replies[name] = reply_to(request, **node_fields(name))
    return replies


def n_letters_received(log):
    """How many letters a SuperNode says that it got."""
    return log.count("Received successfully")


def test_a_simulation_gives_what_one_process_gives(site, monkeypatch):
    pytest.importorskip("ray")
    site.start_superlink("--insecure", "--simulation", secure=False)
    size = "num-supernodes=3 client-resources-num-cpus=1"
    site.run_example("--federation-config", size, n_rounds=3)
    fitted = site.wait_for_aggregate()
    print_history("simulated", fitted)
    monkeypatch.syspath_prepend(ROOT / "examples" / "flower")
    from hospitals.client import load_simulated

    agg = GEMSLogisticAggregator(n_rounds=3, random_state=0)
    with threadpool_limits(1):
        in_process = fit_in_process(agg, [load_simulated(k, 3) for k in range(3)])
    check_equal_bits(fitted, in_process)
