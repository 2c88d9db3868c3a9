"""What every runtime that really runs something promises: its containers' lives, ends and surroundings."""

from __future__ import annotations

import asyncio
import base64
import socket
import time
from pathlib import Path

import pytest

from proreus.engine.runtimes.protocol import LogWanted, Phase, RuntimeRefused
from tests.engine.runtimes.benches import Place, container, happened, pod_of

ROOT = '"$PROREUS_ROOT"'
"""Where the root is that volumes stand in: only plain processes have another one than /."""


def test_a_command_that_is_not_there_is_a_start_error(real_place: Place) -> None:
    async def scene() -> None:
        async with real_place.bench() as bench:
            pod = pod_of({"name": "main", "image": "localhost/busybox:1", "command": ["/no/such/command"]})
            bench.runtime.start(pod, ["main"])
            end = await bench.ended(pod["metadata"]["uid"])
            assert (end.exit_code, end.reason) == (128, "StartError")
            assert "/no/such/command" in end.message

    asyncio.run(scene())


def test_environment_and_arguments_are_expanded(real_place: Place) -> None:
    real_place.references.objects[("ConfigMap", "settings")] = {"data": {"COLOUR": "red", "SIZE": "xl"}}
    secret = {"data": {"token": base64.b64encode(b"hidden").decode()}}
    real_place.references.objects[("Secret", "keys")] = secret

    async def scene() -> None:
        async with real_place.bench() as bench:
            main = {
                "name": "main",
                "image": "localhost/busybox:1",
                "command": ["/bin/sh", "-c"],
                "args": ["echo $(GREETING) '$$(GREETING)' $COLOUR $T $NODE $ME $CPU $MISSING."],
                "envFrom": [{"configMapRef": {"name": "settings"}}],
                "env": [
                    {"name": "WHO", "value": "world"},
                    {"name": "GREETING", "value": "hello-$(WHO)"},
                    {"name": "T", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}},
                    {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                    {"name": "ME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
                    {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                    {
                        "name": "MISSING",
                        "valueFrom": {"configMapKeyRef": {"name": "no", "key": "no", "optional": True}},
                    },
                ],
                "resources": {"limits": {"cpu": "1500m"}},
            }
            end, text = await bench.run(pod_of(main))
            assert end.exit_code == 0
            assert text == "hello-world $(GREETING) red hidden node-1 test 2 .\n"

    asyncio.run(scene())


def test_what_a_container_refers_to_is_waited_for(real_place: Place) -> None:
    async def scene() -> None:
        async with real_place.bench() as bench:
            env = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "a"}}}]
            pod = pod_of(container("echo $A", env=env))
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, ["main"])
            found = await bench.until(uid, lambda one: bool(one["main"].message))
            assert found["main"].reason == "CreateContainerConfigError"
            assert found["main"].message == 'configmap "late" not found'
            real_place.references.objects[("ConfigMap", "late")] = {"data": {"a": "here"}}
            await bench.ended(uid)
            assert await bench.text(uid) == "here\n"

    asyncio.run(scene())


def test_volumes(real_place: Place) -> None:
    real_place.references.objects[("ConfigMap", "files")] = {
        "data": {"a.txt": "alpha", "b.txt": "beta"},
        "binaryData": {"c": base64.b64encode(b"\0gamma").decode()},
    }
    secret = {"data": {"key": base64.b64encode(b"secret").decode()}}
    real_place.references.objects[("Secret", "keys")] = secret
    (real_place.host / "given").write_text("of the machine")

    async def scene() -> None:
        async with real_place.bench() as bench:
            script = f"""
            set -e
            cat {ROOT}/etc/files/renamed {ROOT}/etc/keys/key {ROOT}/mnt/host/given {ROOT}/etc/me/labels
            ls {ROOT}/etc/files
            echo kept > {ROOT}/data/file
            echo written > {ROOT}/mnt/host/new
            """
            items = [{"key": "a.txt", "path": "renamed", "mode": 0o400}]
            labels = [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]
            volumes = [
                {"name": "files", "configMap": {"name": "files", "items": items}},
                {"name": "keys", "secret": {"secretName": "keys"}},
                {"name": "data", "emptyDir": {}},
                {"name": "host", "hostPath": {"path": str(real_place.host), "type": "Directory"}},
                {"name": "me", "downwardAPI": {"items": labels}},
            ]
            mounts = [
                {"name": "files", "mountPath": "/etc/files"},
                {"name": "keys", "mountPath": "/etc/keys"},
                {"name": "data", "mountPath": "/data"},
                {"name": "host", "mountPath": "/mnt/host"},
                {"name": "me", "mountPath": "/etc/me"},
            ]
            reading = container(
                f"cat {ROOT}/data/file", "reader", volumeMounts=[{"name": "data", "mountPath": "/data"}]
            )
            pod = pod_of(reading, volumes=volumes, initContainers=[container(script, volumeMounts=mounts)])
            uid = pod["metadata"]["uid"]
            end, text = await bench.run(pod)
            assert (end.exit_code, text) == (0, 'alphasecretof the machineapp="test"renamed\n')
            bench.runtime.start_container(uid, "reader", 0)
            assert (await bench.ended(uid, "reader")).exit_code == 0
            assert await bench.text(uid, "reader") == "kept\n"
            assert (real_place.host / "new").read_text() == "written\n"
            bench.runtime.remove(uid)

    asyncio.run(scene())
    assert (real_place.host / "given").read_text() == "of the machine", (
        "removing a pod removed what it mounted"
    )


@pytest.mark.parametrize(("path", "for_good"), [("/etc", True), ("HOST/../..", True), ("HOST/out", False)])
def test_paths_of_the_machine_are_refused_unless_allowed(
    real_place: Place, path: str, for_good: bool
) -> None:
    """For good where the name says so; a link may lead elsewhere at the next try."""
    (real_place.host / "out").symlink_to("/etc")
    path = path.replace("HOST", str(real_place.host))

    async def scene() -> None:
        async with real_place.bench() as bench:
            mounts = [{"name": "host", "mountPath": "/x"}]
            pod = pod_of(
                container("true", volumeMounts=mounts), volumes=[{"name": "host", "hostPath": {"path": path}}]
            )
            bench.runtime.start(pod, ["main"])
            message = "is not allowed on this node, unless it is started with --allow-host-path"
            if for_good:
                end = await bench.ended(pod["metadata"]["uid"])
                assert (end.exit_code, end.reason) == (128, "CreateContainerConfigError")
                assert message in end.message
            lasting = pod_of()
            lasting["spec"] = {**pod["spec"], "restartPolicy": "Always"}
            bench.runtime.start(lasting, ["main"])
            found = await bench.until(lasting["metadata"]["uid"], lambda one: bool(one["main"].message))
            assert found["main"].phase is Phase.WAITING and message in found["main"].message

    asyncio.run(scene())


def test_more_than_a_container_usually_may_is_refused(real_place: Place) -> None:
    async def scene() -> None:
        async with real_place.bench() as bench:
            for context in ({"privileged": True}, {"capabilities": {"add": ["SYS_ADMIN"]}}):
                pod = pod_of(container("true", securityContext=context))
                bench.runtime.start(pod, ["main"])
                found = await bench.until(pod["metadata"]["uid"], lambda one: bool(one["main"].message))
                assert found["main"].reason == "CreateContainerConfigError"

    asyncio.run(scene())


def test_containers_do_not_have_all_of_roots_powers(real_place: Place) -> None:
    async def scene() -> None:
        async with real_place.bench() as bench:
            _, text = await bench.run(pod_of(container("grep -E 'CapEff|NoNewPrivs' /proc/self/status")))
            fields = dict(line.split() for line in text.splitlines())
            assert not int(fields["CapEff:"], 16) & 1 << 21, "CAP_SYS_ADMIN"
            assert fields["NoNewPrivs:"] == "1"

    asyncio.run(scene())


def test_a_stop_asks_first(real_place: Place) -> None:
    async def scene() -> None:
        async with real_place.bench() as bench:
            script = "trap 'echo leaving; exit 7' TERM; echo up; while :; do sleep 0.05; done"
            pod = pod_of(container(script))
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, ["main"])
            await bench.running(uid)
            while "up" not in await bench.text(uid):
                await asyncio.sleep(0.05)
            began = time.monotonic()
            await bench.stop(uid, grace=120.0)
            assert time.monotonic() - began < 60
            end = await bench.ended(uid)
            assert end.exit_code == 7
            assert await bench.text(uid) == "up\nleaving\n"

    asyncio.run(scene())


def test_who_hangs_on_stop_is_killed_with_all_descendants(real_place: Place) -> None:
    """Grandchildren in sessions of their own included: the fixture looks for what is left."""

    async def scene() -> None:
        async with real_place.bench() as bench:
            script = (
                "trap '' TERM; (setsid sh -c 'trap \"\" TERM; sleep 300 & sleep 300' &) ; "
                "echo up; while :; do sleep 1; done"
            )
            pod = pod_of(container(script))
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, ["main"])
            await bench.running(uid)
            while "up" not in await bench.text(uid):
                await asyncio.sleep(0.05)
            began = time.monotonic()
            await bench.stop(uid, grace=1.0)
            assert 0.9 < time.monotonic() - began < 60
            assert (await bench.ended(uid)).exit_code == 137

    asyncio.run(scene())


def test_less_grace_shortens_a_stop_under_way(real_place: Place) -> None:
    async def scene() -> None:
        async with real_place.bench() as bench:
            pod = pod_of(container("trap '' TERM; echo up; while :; do sleep 1; done"))
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, ["main"])
            await bench.running(uid)
            while "up" not in await bench.text(uid):
                await asyncio.sleep(0.05)
            bench.runtime.stop(uid, 300.0)
            await asyncio.sleep(0.2)
            assert bench.reports[uid].containers[0].phase is Phase.RUNNING
            began = time.monotonic()
            await bench.stop(uid, 0.0)
            assert time.monotonic() - began < 60

    asyncio.run(scene())


def test_nothing_outlives_the_first_process(real_place: Place) -> None:
    async def scene() -> None:
        async with real_place.bench() as bench:
            end, _ = await bench.run(pod_of(container("(setsid sleep 300 &); sleep 300 & exit 0")))
            assert end.exit_code == 0

    asyncio.run(scene())


def test_logs_by_tail_bytes_time_and_attempt(real_place: Place) -> None:
    async def scene() -> None:
        async with real_place.bench() as bench:
            # The streams are read side by side: a pause, so that a line without an end is the last.
            script = (
                "for i in 1 2 3 4 5; do echo line $i; done; sleep 0.4; echo late; echo oops >&2; "
                "sleep 0.3; printf rest"
            )
            pod = pod_of(container(script))
            uid = pod["metadata"]["uid"]
            end, text = await bench.run(pod)
            lines = text.splitlines(keepends=True)
            assert lines[:5] == [f"line {number}\n" for number in range(1, 6)]
            assert sorted(lines[5:]) == ["late\n", "oops\n", "rest"]
            assert await bench.text(uid, tail=2) == "".join(lines[-2:])
            assert await bench.text(uid, tail=0) == ""
            assert await bench.text(uid, tail=100) == text
            assert await bench.text(uid, limit_bytes=9) == text[:9]
            assert await bench.text(uid, since=end.started + 0.3) == "".join(lines[5:])
            stamped = (await bench.text(uid, tail=1, timestamps=True)).split(" ", 1)
            assert stamped[0].endswith("Z") and stamped[1] == lines[-1]
            bench.runtime.start_container(uid, "main", 1)
            await bench.ended(uid, attempt=1)
            assert await bench.text(uid, previous=True) == text

    asyncio.run(scene())


def test_a_flood_of_output_is_bounded_and_its_end_is_kept(real_place: Place) -> None:
    assert real_place.options is not None
    most = real_place.options.log_bytes * (real_place.options.log_files + 1)

    async def scene() -> None:
        async with real_place.bench() as bench:
            script = "i=0; while [ $i -lt 20000 ]; do echo line $i of very many lines; i=$((i+1)); done"
            pod = pod_of(container(script))
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, ["main"])
            await bench.running(uid)
            followed = [
                line async for line in bench.runtime.logs(uid, LogWanted("main", follow=True, tail=0))
            ]
            await bench.ended(uid)
            written = sum(file.stat().st_size for file in real_place.root.rglob("*log*") if file.is_file())
            # containerd writes its logs itself; they are turned over once a second only.
            assert 0 < written <= (most if real_place.name != "containerd" else 2**22)
            if _containerd_dropped_output(real_place):
                return
            assert await bench.text(uid, tail=1) == "line 19999 of very many lines\n"
            assert followed[-1] == b"line 19999 of very many lines\n"

    asyncio.run(scene())


def _containerd_dropped_output(place: Place) -> bool:
    """containerd 1.6 may close the pipe of a container that has ended before it has read it all."""
    if place.name != "containerd":
        return False
    assert place.options is not None
    text = place.options.socket.with_name("containerd.log").read_text(errors="replace")
    return "Failed to pipe stdout of container" in text


def test_a_line_without_end_is_read_as_one(real_place: Place) -> None:
    async def scene() -> None:
        async with real_place.bench() as bench:
            script = "i=0; while [ $i -lt 5000 ]; do printf 0123456789; i=$((i+1)); done; echo; echo last"
            pod = pod_of(container(script))
            _, text = await bench.run(pod)
            assert text == "0123456789" * 5000 + "\nlast\n"
            assert await bench.text(pod["metadata"]["uid"], tail=2) == text

    asyncio.run(scene())


def test_commands_run_in_the_container(real_place: Place) -> None:
    async def scene() -> None:
        async with real_place.bench() as bench:
            pod = pod_of(container("sleep 300", env=[{"name": "INSIDE", "value": "yes"}]))
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, ["main"])
            await bench.running(uid)
            execute = bench.runtime.execute
            script = "echo $INSIDE; cat; echo no >&2; exit 5"
            for given in (b"", b"given"):
                done = await execute(uid, "main", ["sh", "-c", script], given)
                assert (done.exit_code, done.stdout, done.stderr) == (5, b"yes\n" + given, b"no\n")
            done = await execute(uid, "main", ["/no/such/command"])
            assert done.exit_code != 0
            with pytest.raises(RuntimeRefused, match="did not end within"):
                await execute(uid, "main", ["sleep", "60"], timeout=1.0)
            assert bench.reports[uid].containers[0].phase is Phase.RUNNING

    asyncio.run(scene())


def test_out_of_memory_is_told(real_place: Place) -> None:
    if not real_place.in_cgroups:
        pytest.skip("without cgroups nobody tells a lack of memory from another end")

    async def scene() -> None:
        async with real_place.bench() as bench:
            limits = {"limits": {"memory": "24Mi"}}
            pod = pod_of(container("x=a; while :; do x=$x$x; done", resources=limits))
            end, _ = await bench.run(pod)
            assert (end.exit_code, end.reason) == (137, "OOMKilled")

    asyncio.run(scene())


def test_limits_hold_and_are_read_back(real_place: Place) -> None:
    """By the container itself: what its own cgroup says."""
    if not real_place.in_cgroups:

        async def limited() -> None:
            async with real_place.bench() as bench:
                resources = {"limits": {"memory": "64Mi"}}
                _, text = await bench.run(pod_of(container("ulimit -v", resources=resources)))
                assert text == f"{64 * 1024}\n"

        asyncio.run(limited())
        return

    async def scene() -> None:
        async with real_place.bench() as bench:
            resources = {"limits": {"memory": "64Mi", "cpu": "250m"}, "requests": {"cpu": "250m"}}
            pod = pod_of(container("sleep 300", resources=resources))
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, ["main"])
            await bench.running(uid)
            done = await bench.runtime.execute(uid, "main", ["cat", "/proc/self/cgroup"])
            paths = dict(line.split(":")[1:] for line in done.stdout.decode().splitlines())

            async def said(controller: str, file: str) -> str:
                """A plain process sees the machine's cgroups, others their own alone."""
                is_second = Path("/sys/fs/cgroup/cgroup.controllers").exists()
                own = "" if is_second else controller
                within = next(path for names, path in paths.items() if own in names.split(","))
                below = within if real_place.name == "process" else ""
                path = f"/sys/fs/cgroup/{own}/{below}/{file}"
                return (await bench.runtime.execute(uid, "main", ["cat", path])).stdout.decode().strip()

            if Path("/sys/fs/cgroup/cgroup.controllers").exists():
                assert await said("memory", "memory.max") == str(64 << 20)
                assert await said("cpu", "cpu.max") == "25000 100000"
            else:
                assert await said("memory", "memory.limit_in_bytes") == str(64 << 20)
                assert await said("cpu", "cpu.cfs_quota_us") == "25000"
                assert await said("cpu", "cpu.shares") == "256"

    asyncio.run(scene())


def test_probes(real_place: Place) -> None:
    async def scene() -> None:
        async with real_place.bench() as bench:
            often = {"periodSeconds": 1, "timeoutSeconds": 5}
            ready = {"exec": {"command": ["sh", "-c", f"test -e {ROOT}/probed/ready"]}, **often}
            alive = {"exec": {"command": ["sh", "-c", f"test ! -e {ROOT}/probed/dead"]}, **often}
            mounts = [{"name": "tmp", "mountPath": "/probed"}]
            main = container(
                "sleep 300",
                readinessProbe=ready,
                livenessProbe={**alive, "failureThreshold": 1},
                volumeMounts=mounts,
            )
            volumes = [{"name": "tmp", "emptyDir": {}}]
            pod = pod_of(main, volumes=volumes, terminationGracePeriodSeconds=0)
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, ["main"])
            assert not (await bench.running(uid)).ready
            await bench.runtime.execute(uid, "main", ["sh", "-c", f"touch {ROOT}/probed/ready"])
            await bench.until(uid, lambda one: one["main"].ready)
            await bench.runtime.execute(uid, "main", ["sh", "-c", f"touch {ROOT}/probed/dead"])
            end = await bench.ended(uid)
            assert (end.exit_code, end.ready) == (137, False)
            assert end.message.startswith("Liveness probe failed")
            notices = [
                (notice.type, notice.reason, notice.message.partition(":")[0]) for notice in end.notices
            ]
            # The readiness probe may fail once more meanwhile.
            assert [notice for notice in notices if not notice[2].startswith("Readiness")][-2:] == [
                ("Warning", "Unhealthy", "Liveness probe failed"),
                ("Normal", "Killing", "Container main failed liveness probe, will be restarted"),
            ]

    asyncio.run(scene())


def test_probes_over_the_network(real_place: Place) -> None:
    """The server is the test's: containers share the machine's network here."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readline()
        code = b"200 OK" if line.startswith(b"GET /well ") else b"500 Broken"
        writer.write(b"HTTP/1.1 " + code + b"\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    async def scene() -> None:
        async with real_place.bench() as bench:
            server = await asyncio.start_server(answer, "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            with socket.socket() as closed:
                closed.bind(("127.0.0.1", 0))
                often = {"periodSeconds": 1, "failureThreshold": 2}
                well = container(
                    "sleep 300",
                    "well",
                    ports=[{"name": "web", "containerPort": port}],
                    startupProbe={"tcpSocket": {"port": "web"}, **often},
                    readinessProbe={"httpGet": {"port": port, "path": "/well"}, **often},
                )
                broken = container(
                    "sleep 300", "broken", readinessProbe={"httpGet": {"port": port, "path": "/"}, **often}
                )
                deaf = container(
                    "sleep 300",
                    "deaf",
                    startupProbe={"tcpSocket": {"port": closed.getsockname()[1]}, **often},
                )
                pod = pod_of(well, broken, deaf, terminationGracePeriodSeconds=0)
                uid = pod["metadata"]["uid"]
                bench.runtime.start(pod, ["well", "broken", "deaf"])
                await bench.until(uid, lambda one: one["well"].ready)
                end = await bench.ended(uid, "deaf")
                assert end.message.startswith("Startup probe failed")
                found = await bench.until(uid, lambda one: bool(happened(one["broken"], since_start=True)))
                message = "Readiness probe failed: HTTP probe failed with statuscode: 500"
                assert set(happened(found["broken"], since_start=True)) == {("Warning", "Unhealthy", message)}
                assert not found["broken"].ready and found["broken"].phase is Phase.RUNNING
            server.close()
            await server.wait_closed()

    asyncio.run(scene())


def test_an_end_while_no_agent_was_there_is_told(real_place: Place) -> None:
    async def scene() -> None:
        pod = pod_of(container("sleep 0.7; echo done; exit 9"))
        uid = pod["metadata"]["uid"]
        async with real_place.open() as bench:
            bench.runtime.start(pod, ["main"])
            await bench.running(uid)
        await asyncio.sleep(1.5)
        async with real_place.bench() as bench:
            (report,) = bench.runtime.adopt([pod])
            (end,) = report.containers
            assert (end.phase, end.exit_code, end.reason) == (Phase.EXITED, 9, "Error")
            assert await bench.text(uid) == "done\n"

    asyncio.run(scene())


def test_many_pods_at_once(real_place: Place) -> None:
    async def scene() -> None:
        async with real_place.bench() as bench:
            pods = [pod_of(container(f"echo {number}")) for number in range(8)]
            ends = await asyncio.gather(*(bench.run(pod) for pod in pods))
            assert [text for _, text in ends] == [f"{number}\n" for number in range(8)]

    asyncio.run(scene())
