"""Base of all lists of a cluster's objects: the keys that act on one object."""

from abc import abstractmethod
from typing import ClassVar

from textual.app import SuspendNotSupported
from textual.binding import Binding, BindingType

from core.errors import TowlineError
from towline.cli.cockpit.object_actions import ObjectActions
from towline.cli.cockpit.program import BACK, CockpitScreen
from towline.cli.cockpit.prompt import TextPrompt
from towline.cli.cockpit.text_screen import TextScreen
from towline.cli.cockpit.workload_actions import actions_for
from towline.cli.services.object_names import ObjectName, kind_word, title_of
from towline.cli.shell.output import escape_controls

REFRESH_SECONDS = 5.0
# The best shell that the image has.
_SHELL = ("sh", "-c", "command -v bash >/dev/null && exec bash || exec sh")
_PORT_OWNERS = {("", "Pod"), ("", "Service"), ("apps", "Deployment"), ("apps", "StatefulSet")}


class ObjectScreen(CockpitScreen):
    """Objects of one cluster, read again every few seconds."""

    BINDINGS: ClassVar[list[BindingType]] = [
        BACK,
        Binding("l", "log", "Log"),
        Binding("h", "shell", "Shell"),
        Binding("f", "forward", "Forward"),
        Binding("d", "edit", "Edit"),
        Binding("x", "object_actions", "Actions"),
    ]

    def __init__(self, cluster: str) -> None:
        super().__init__()
        self._cluster = cluster
        self._is_reading = False

    @property
    def cluster(self) -> str:
        return self._cluster

    @property
    @abstractmethod
    def selected(self) -> ObjectName | None:
        """The object at the cursor."""

    @abstractmethod
    def read(self) -> None:
        """Reads all objects and shows them. Runs in the background."""

    def on_mount(self) -> None:
        self.refresh_objects()
        self.set_interval(REFRESH_SECONDS, self.refresh_objects)

    def refresh_objects(self) -> None:
        """Reads the objects again, unless that is under way."""
        if not self._is_reading:
            self._is_reading = True
            self.cockpit.background(self._read_once)

    def _read_once(self) -> None:
        try:
            self.read()
        finally:
            self._is_reading = False

    def on_line_list_chosen(self) -> None:
        if (selected := self.selected) is not None:
            read, cluster = self.cockpit.source.manifest, self._cluster
            title = title_of(selected)
            self.app.push_screen(
                TextScreen(title, lambda: [read(cluster, selected)], cluster=cluster)
            )

    def action_log(self) -> None:
        if (pod := self._pod("see its log")) is None:
            return
        namespace, name = pod["namespace"] or "", pod["name"]
        read, cluster = self.cockpit.source.log, self._cluster
        title = f"{cluster}: {namespace}/{name}"
        self.app.push_screen(
            TextScreen(title, lambda: read(cluster, namespace, name), cluster=cluster, follows=True)
        )

    def action_shell(self) -> None:
        if (pod := self._pod("open a shell in it")) is not None:
            self._kubectl(pod, "exec", "-it", pod["name"], "--", *_SHELL)

    def action_edit(self) -> None:
        if (selected := self.selected) is not None:
            self._kubectl(selected, "edit", kind_word(selected), selected["name"])

    def action_forward(self) -> None:
        selected = self.selected
        if selected is None or (selected["group"] or "", selected["kind"]) not in _PORT_OWNERS:
            message = "Select a pod, a workload or a Kubernetes Service to forward its ports."
            self.notify(message, severity="warning")
            return

        def on_typed(ports: str | None) -> None:
            if ports is not None:
                target = f"{kind_word(selected)}/{selected['name']}"
                self._kubectl(selected, "port-forward", target, "--", *ports.split())

        title = f"Forward ports of {title_of(selected)} until Ctrl-C"
        self.app.push_screen(TextPrompt(title, "LOCAL:REMOTE, such as 8080:80"), on_typed)

    def action_object_actions(self) -> None:
        selected = self.selected
        if selected is None or not actions_for(selected):
            kind = selected["kind"] if selected else "nothing"
            self.notify(f"No actions for {kind}.", severity="warning", markup=False)
            return
        ObjectActions(self.cockpit, self._cluster, selected).open()

    def _pod(self, purpose: str) -> ObjectName | None:
        """The selected pod; None, with a hint, without one."""
        selected = self.selected
        if selected is None or (selected["kind"], selected["group"]) != ("Pod", ""):
            self.notify(f"Select a pod to {purpose}.", severity="warning")
            return None
        return selected

    def _kubectl(self, object_name: ObjectName, *words: str) -> None:
        """Gives the terminal to kubectl until it ends."""
        namespace_flags = ["-n", object_name["namespace"]] if object_name["namespace"] else []
        try:
            with self.app.suspend():
                code = self.cockpit.source.kubectl(self._cluster, [*namespace_flags, *words])
                if code:
                    input("Press Enter to return. ")
        except SuspendNotSupported:
            self.notify("kubectl cannot use this terminal.", severity="warning")
        except TowlineError as error:
            self.notify(escape_controls(error.message), severity="error", markup=False)
        self.refresh_objects()
