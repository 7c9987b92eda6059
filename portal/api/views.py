"""The API's operations. What they do is in the services; what is seen, in the querysets."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views.decorators.http import conditional_page
from django_filters.rest_framework import DjangoFilterBackend
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import status
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.generics import GenericAPIView, ListAPIView, RetrieveAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.accounts.models import User
from portal.api.authentication import MemberPermission
from portal.api.filters import RunFilters
from portal.api.idempotency import answer_once
from portal.api.limits import MemberLimit, SubmissionLimit, VisitorLimit
from portal.api.pagination import ByIdentifier, NewestFirst
from portal.api.problems import Conflict
from portal.api.serializers import (
    EnvironmentDetail,
    PersonDetail,
    RunDetail,
    Submission,
    SystemDetail,
    TaskDetail,
    TaskSummary,
    VisibilityChange,
    WatchedRun,
)
from portal.catalog.models import Environment, Task
from portal.review.trail import note_source_reading
from portal.runs.models import Run
from portal.runs.report import read_verdict
from portal.runs.services import DuplicateRun, cancel_run, set_visibility, submit_run
from portal.systems.models import System

tagged = method_decorator(conditional_page, "dispatch")


def find_run(user: Any, public_id: UUID) -> Run:  # noqa: ANN401  somebody or nobody
    """Return the run. Raises Http404 when there is none that `user` may see."""
    runs = Run.objects.visible_to(user).select_related(
        "task", "environment", "system", "team", "source", "verdict", "campaign"
    )
    return get_object_or_404(runs.defer("task__instruction", "task__reference_source"), public_id=public_id)


@tagged
class TaskList(ListAPIView[Task]):
    """The tasks of the benchmark."""

    queryset = Task.objects.for_lists()
    serializer_class = TaskSummary
    pagination_class = ByIdentifier


@tagged
@extend_schema(parameters=[OpenApiParameter("task", str, "path", description="Its number or its slug.")])
class TaskRetrieval(RetrieveAPIView[Task]):
    """One task, as an agent sees it, with its certified targets."""

    queryset = Task.objects.all()
    serializer_class = TaskDetail

    def get_object(self) -> Task:
        """Return the task by its number or its slug."""
        name = self.kwargs["task"]
        return get_object_or_404(Task, Q(id=name) | Q(slug=name))


class Environments(GenericAPIView[Environment]):
    """What both views of environments share."""

    queryset = Environment.objects.all()
    serializer_class = EnvironmentDetail
    lookup_field = "slug"

    def get_serializer_context(self) -> dict[str, Any]:
        """Add which environments are served."""
        return dict(super().get_serializer_context()) | {"served": {row.slug for row in Environment.objects.served()}}


@tagged
class EnvironmentList(Environments, ListAPIView[Environment]):
    """The environments, each a GPU with pinned software."""

    pagination_class = ByIdentifier


@tagged
class EnvironmentRetrieval(Environments, RetrieveAPIView[Environment]):
    """One environment."""


class Systems(GenericAPIView[System]):
    """What both views of systems share: those with a run that the visitor may see, and those of own teams."""

    serializer_class = SystemDetail
    lookup_field = "slug"
    queryset = System.objects.none()

    def get_queryset(self) -> QuerySet[System]:
        """Return the systems that the visitor may see."""
        user = self.request.user
        runs = Run.objects.visible_to(user).filter(system=OuterRef("pk")).order_by()
        own = System.objects.submittable_by(user).order_by().values("pk")
        return System.objects.filter(Exists(runs) | Q(pk__in=own)).select_related("scaffold", "team")


@tagged
class SystemList(Systems, ListAPIView[System]):
    """The systems: a model in a scaffold each."""

    pagination_class = ByIdentifier


@tagged
class SystemRetrieval(Systems, RetrieveAPIView[System]):
    """One system."""


@tagged
class RunList(ListAPIView[Run]):
    """Runs, the newest first; or a new one."""

    queryset = Run.objects.none()
    serializer_class = RunDetail
    pagination_class = NewestFirst
    filter_backends = [DjangoFilterBackend]
    filterset_class = RunFilters

    def get_queryset(self) -> QuerySet[Run]:
        """Return the runs that the visitor may see."""
        return (
            Run.objects.visible_to(self.request.user)
            .for_lists()
            .select_related("source", "campaign")
            .defer("source__text")
        )

    def get_throttles(self) -> list[Any]:
        """Count attempts to submit by themselves."""
        kinds = [SubmissionLimit] if self.request.method == "POST" else [VisitorLimit, MemberLimit]
        return [kind() for kind in kinds]

    @extend_schema(request=Submission, responses={201: WatchedRun})
    def post(self, request: Request) -> Response:
        """Submit a solution."""
        body = read_body(request)
        return answer_once(request, cast("User", request.user), body, lambda: self.submit(request))

    def submit(self, request: Request) -> Response:
        """Queue the solution."""
        form = Submission(data=request.data)
        form.is_valid(raise_exception=True)
        data = form.validated_data
        user = cast("User", request.user)
        task = Task.objects.filter(Q(id=data["task"]) | Q(slug=data["task"])).first()
        environment = Environment.objects.filter(slug=data["environment"]).first()
        system = System.objects.submittable_by(user).filter(slug=data["system"]).first()
        found = {"task": task, "environment": environment, "system": system}
        if missing := {name: ["There is none of this name for you."] for name, row in found.items() if row is None}:
            raise ValidationError(missing)
        try:
            run = submit_run(
                user=user,
                task=cast("Task", task),
                environment=cast("Environment", environment),
                system=cast("System", system),
                source=data["source"],
                visibility=data["visibility"],
                release_source=data["release_source"],
                wall_clock_seconds=data["wall_clock_seconds"],
                allow_duplicate=data["allow_duplicate"],
            )
        except DuplicateRun as duplicate:
            raise tell_duplicate(duplicate) from duplicate
        answer = WatchedRun(find_run(user, run.public_id))
        return Response(answer.data, status=status.HTTP_201_CREATED, headers={"Location": f"{request.path}{run}/"})


def tell_duplicate(duplicate: DuplicateRun) -> Conflict:
    """Return the answer to bytes that are submitted already, with the addresses of the earlier run."""
    identifier = duplicate.earlier.public_id
    detail = f"{duplicate.messages[0]} Send allow_duplicate: true to submit them again."
    page = reverse("runs:run_detail", args=[identifier])
    return Conflict(detail, earlier_run=reverse("api:run", args=[identifier]), earlier_page=page)


def read_body(request: Request) -> bytes:
    """Return the bytes of a request, before anything else reads them."""
    return bytes(request._request.body)  # noqa: SLF001  the framework wraps it


@tagged
class RunRetrieval(APIView):
    """One run."""

    @extend_schema(responses=WatchedRun)
    def get(self, request: Request, public_id: UUID) -> Response:
        """Return where the run is, and the figures of its verdict."""
        return Response(WatchedRun(find_run(request.user, public_id)).data)

    @extend_schema(request=VisibilityChange, responses=WatchedRun)
    def patch(self, request: Request, public_id: UUID) -> Response:
        """Change who sees the run and its source."""
        run = find_run(request.user, public_id)
        check_owner(run, request)
        form = VisibilityChange(data=request.data)
        form.is_valid(raise_exception=True)
        set_visibility(run=run, user=cast("User", request.user), **form.validated_data)
        return Response(WatchedRun(find_run(request.user, public_id)).data)


def check_owner(run: Run, request: Request) -> None:
    """Raise NotFound unless the run is one that the visitor may change."""
    if not run.is_owned_by(request.user):
        raise NotFound


class RunCancellation(APIView):
    """The end of a run before its verdict."""

    permission_classes = [MemberPermission]

    @extend_schema(request=None, responses=WatchedRun)
    def post(self, request: Request, public_id: UUID) -> Response:
        """Cancel a waiting run, or ask the worker to stop one in progress. 409 when it has ended."""
        return answer_once(
            request, cast("User", request.user), read_body(request), lambda: self.cancel(request, public_id)
        )

    def cancel(self, request: Request, public_id: UUID) -> Response:
        """Cancel the run."""
        run = find_run(request.user, public_id)
        check_owner(run, request)
        if run.is_terminal or run.verdict_id:
            raise Conflict("This run has ended and cannot be cancelled.")
        cancel_run(run=run, user=cast("User", request.user))
        return Response(WatchedRun(find_run(request.user, public_id)).data)


@tagged
class RunVerdict(APIView):
    """The evidence."""

    @extend_schema(responses=OpenApiResponse(OpenApiTypes.OBJECT, "The verdict that stands, with all its evidence."))
    def get(self, request: Request, public_id: UUID) -> Response:
        """Return the whole verdict; 404 while there is none."""
        run = find_run(request.user, public_id)
        if run.verdict is None:
            raise NotFound("This run has no verdict yet.")
        return Response(read_verdict(run, run.verdict, request.user).model_dump(mode="json"))


@tagged
class RunSource(APIView):
    """What was submitted."""

    @extend_schema(responses={(200, "text/plain"): OpenApiTypes.STR})
    def get(self, request: Request, public_id: UUID) -> HttpResponse:
        """Return the text of the solution to those who may read it."""
        run = find_run(request.user, public_id)
        if not run.source_readable_by(request.user):
            raise NotFound
        note_source_reading(run=run, reader=request.user, request=request._request)  # noqa: SLF001  the framework wraps it
        return HttpResponse(run.source.text, content_type="text/plain; charset=utf-8")


class Me(APIView):
    """Who asks."""

    permission_classes = [MemberPermission]

    @extend_schema(responses=PersonDetail)
    def get(self, request: Request) -> Response:
        """Return the account, its teams with their systems and quotas, and the token of this request."""
        return Response(PersonDetail(cast("User", request.user), context={"request": request}).data)
