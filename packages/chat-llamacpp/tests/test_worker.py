from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable

import pytest
from chat_llamacpp.worker import Worker


class Task:
    """Job that reports its start and waits until a test lets it end."""

    def __init__(self, log: list[str], name: str, *, free: bool = True) -> None:
        self.begun = threading.Event()
        self.stopped = threading.Event()
        self.ended = threading.Event()
        self.thread: threading.Thread | None = None
        self._log = log
        self._name = name
        self._may_end = threading.Event()
        if free:
            self._may_end.set()

    def run(self) -> None:
        self.thread = threading.current_thread()
        self._log.append(self._name)
        self.begun.set()
        self._may_end.wait()
        self.ended.set()

    def stop(self) -> None:
        self.stopped.set()
        self._may_end.set()


@pytest.fixture
def log() -> list[str]:
    return []


def ended(task: Task) -> threading.Thread:
    assert task.ended.wait(10)
    assert task.thread is not None
    return task.thread


def test_jobs_run_one_at_a_time_in_the_order_of_submission(log: list[str]) -> None:
    worker = Worker()
    held = Task(log, "held", free=False)
    tasks = [held, *[Task(log, f"task {n}") for n in range(5)]]
    for task in tasks:
        worker.submit(task)
    assert held.begun.wait(10)
    assert log == ["held"]

    held.stop()
    ended(tasks[-1]).join(10)

    assert log == ["held", "task 0", "task 1", "task 2", "task 3", "task 4"]
    assert len({task.thread for task in tasks}) == 1


def test_the_thread_ends_when_idle_and_is_started_again(log: list[str]) -> None:
    worker = Worker()
    first, second = Task(log, "first"), Task(log, "second")
    worker.submit(first)
    thread = ended(first)
    thread.join(10)
    assert not thread.is_alive()
    assert thread.daemon

    worker.submit(second)

    assert ended(second) is not thread


def test_a_withdrawn_job_never_runs(log: list[str]) -> None:
    worker = Worker()
    held, given_up, last = Task(log, "held", free=False), Task(log, "given up"), Task(log, "last")
    for task in (held, given_up, last):
        worker.submit(task)

    assert worker.withdraw(given_up)
    assert not worker.withdraw(given_up)
    held.stop()
    ended(last)

    assert log == ["held", "last"]


def test_a_running_job_cannot_be_withdrawn(log: list[str]) -> None:
    worker = Worker()
    held = Task(log, "held", free=False)
    worker.submit(held)
    assert held.begun.wait(10)

    assert not worker.withdraw(held)
    held.stop()
    ended(held)
    assert not worker.withdraw(held)


def test_close_drops_queued_jobs_and_stops_the_running_one(log: list[str]) -> None:
    worker = Worker()
    held, waiting = Task(log, "held", free=False), Task(log, "waiting")
    worker.submit(held)
    worker.submit(waiting)
    assert held.begun.wait(10)

    worker.close()

    assert held.stopped.is_set()
    assert held.ended.is_set()
    assert log == ["held"]
    worker.close()


@pytest.mark.parametrize("leave", ["sys.exit(0)", "pass"])
def test_exiting_the_program_stops_the_running_job_and_waits_for_it(leave: str) -> None:
    program = textwrap.dedent(f"""
        import sys, threading
        from chat_llamacpp.worker import Worker

        class Endless:
            def __init__(self): self.begun, self.stopped = threading.Event(), threading.Event()
            def run(self):
                self.begun.set()
                self.stopped.wait()
                print("stopped")
            def stop(self): self.stopped.set()

        task = Endless()
        worker = Worker()
        worker.submit(task)
        worker.submit(Endless())
        task.begun.wait()
        {leave}
    """)

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, "stopped\n", "")


def test_many_threads_may_submit_and_withdraw_jobs(log: list[str]) -> None:
    worker = Worker()
    kept = [Task(log, f"kept {n}") for n in range(40)]

    def submit(part: list[Task]) -> Callable[[], None]:
        def work() -> None:
            for task in part:
                worker.submit(task)
                worker.withdraw(Task(log, "never submitted"))

        return work

    threads = [threading.Thread(target=submit(kept[n::4])) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for task in kept:
        ended(task)

    assert sorted(log) == sorted(f"kept {n}" for n in range(40))
