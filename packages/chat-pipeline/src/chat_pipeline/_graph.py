"""Functions that sort tasks by their dependencies and find cycles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def sort_tasks(dependencies: Mapping[str, Sequence[str]]) -> tuple[list[str], list[str]]:
    """Return the task ids, sorted so that each task follows its dependencies, and the ids of one cycle.

    Without a cycle, the second list is empty. With a cycle, the first list contains only the tasks that do not depend
    on a cycle. The same `dependencies` always have the same result.

    Args:
        dependencies: ids of the dependencies by task id. Unknown ids are ignored.
    """
    waiting = {task: {item for item in items if item in dependencies} for task, items in dependencies.items()}
    dependents: dict[str, list[str]] = {task: [] for task in dependencies}
    for task, items in waiting.items():
        for item in items:
            dependents[item].append(task)
    ordered = [task for task, items in waiting.items() if not items]
    for task in ordered:  # `ordered` grows in this loop
        for dependent in dependents[task]:
            waiting[dependent].discard(task)
            if not waiting[dependent]:
                ordered.append(dependent)
    if len(ordered) == len(dependencies):
        return ordered, []
    done = set(ordered)
    return ordered, _find_cycle({task: sorted(items) for task, items in waiting.items() if task not in done})


def _find_cycle(dependencies: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the ids of a cycle. Each task must have at least one dependency."""
    path = [next(iter(dependencies))]
    while (following := dependencies[path[-1]][0]) not in path:
        path.append(following)
    return path[path.index(following) :]
