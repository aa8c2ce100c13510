"""A thread works in the context of who starts it."""

from contextvars import ContextVar

from chassis import threads


def test_a_thread_has_the_context_of_its_starter_and_does_not_change_it() -> None:
    name: ContextVar[str] = ContextVar("name", default="nobody")
    found: list[str] = []

    def work() -> None:
        found.append(name.get())
        name.set("another")

    name.set("somebody")
    threads.start(work, "worker").join(60)

    assert found == ["somebody"]
    assert name.get() == "somebody"
