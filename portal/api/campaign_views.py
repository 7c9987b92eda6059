"""The API's operations on campaigns. What they do is in the services of the campaigns."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.accounts.models import User
from portal.api.authentication import MemberPermission
from portal.api.campaign_serializers import (
    CampaignDetail,
    CampaignSummary,
    Confirmation,
    DraftPreview,
    DraftRequest,
    FileRequest,
    PutFile,
    StoredFile,
)
from portal.api.idempotency import answer_once
from portal.api.limits import SubmissionLimit
from portal.api.pagination import NewestFirst
from portal.api.serializers import VisibilityChange
from portal.api.views import read_body, tagged
from portal.campaigns.models import Campaign
from portal.campaigns.preview import build_preview
from portal.campaigns.services import (
    Put,
    cancel_campaign,
    confirm_campaign,
    create_campaign,
    discard_campaign,
    put_file,
    remove_files,
    show_campaign,
)
from portal.catalog.models import Environment
from portal.systems.models import System


def get_user(request: Request) -> User:
    """Return who asks, of a request that only members may make."""
    return cast("User", request.user)


def find_campaign(request: Request, public_id: UUID) -> Campaign:
    """Return the campaign. Raises Http404 when there is none that the visitor may see."""
    return get_object_or_404(Campaign.objects.visible_to(request.user).for_lists(), public_id=public_id)


def find_own_campaign(request: Request, public_id: UUID) -> Campaign:
    """Return the campaign. Raises NotFound when there is none that the visitor may change."""
    campaign = find_campaign(request, public_id)
    if not System.objects.submittable_by(request.user).filter(pk=campaign.system_id).exists():
        raise NotFound
    return campaign


def show_detail(request: Request, public_id: UUID) -> Response:
    """Return the campaign as it is now."""
    return Response(CampaignDetail(find_campaign(request, public_id), context={"request": request}).data)


class NewestCampaigns(NewestFirst):
    ordering = ("-created_at", "-id")


@tagged
class CampaignList(ListAPIView[Campaign]):
    """The campaigns of one's teams, the newest first; or a new draft."""

    queryset = Campaign.objects.none()
    serializer_class = CampaignSummary
    permission_classes = [MemberPermission]
    pagination_class = NewestCampaigns

    def get_queryset(self) -> QuerySet[Campaign]:
        """Return the campaigns that the visitor may see."""
        return Campaign.objects.visible_to(self.request.user).for_lists()

    @extend_schema(request=DraftRequest, responses={201: CampaignDetail})
    def post(self, request: Request) -> Response:
        """Begin a draft. Put files into it, look at what they would become, then confirm it."""
        return answer_once(request, get_user(request), read_body(request), lambda: self.create(request))

    def create(self, request: Request) -> Response:
        """Create the draft."""
        form = DraftRequest(data=request.data)
        form.is_valid(raise_exception=True)
        data = form.validated_data
        environment = Environment.objects.filter(slug=data["environment"]).first()
        system = System.objects.submittable_by(request.user).filter(slug=data["system"]).first()
        if environment is None or system is None:
            found = {"environment": environment, "system": system}
            raise ValidationError({n: ["There is none of this name for you."] for n, row in found.items() if not row})
        chosen: dict[str, Any] = data | {"environment": environment, "system": system}
        campaign = create_campaign(user=get_user(request), **chosen)
        answer = show_detail(request, campaign.public_id)
        answer.status_code = status.HTTP_201_CREATED
        answer["Location"] = f"{request.path}{campaign}/"
        return answer


@tagged
class CampaignRetrieval(APIView):
    """One campaign."""

    permission_classes = [MemberPermission]

    @extend_schema(responses=CampaignDetail)
    def get(self, request: Request, public_id: UUID) -> Response:
        """Return how far the campaign is, and what is left to the team."""
        return show_detail(request, public_id)

    @extend_schema(request=VisibilityChange, responses=CampaignDetail)
    def patch(self, request: Request, public_id: UUID) -> Response:
        """Change who sees all runs of the campaign, and their sources."""
        campaign = find_own_campaign(request, public_id)
        form = VisibilityChange(data=request.data)
        form.is_valid(raise_exception=True)
        show_campaign(campaign=campaign, user=get_user(request), **form.validated_data)
        return show_detail(request, public_id)


@tagged
class CampaignFiles(APIView):
    """The files of a draft."""

    permission_classes = [MemberPermission]

    @extend_schema(responses=DraftPreview)
    def get(self, request: Request, public_id: UUID) -> Response:
        """Return each file with the run that it would become, and what stands in the way."""
        campaign = find_campaign(request, public_id)
        return Response(DraftPreview(build_preview(campaign, get_user(request))).data)

    @extend_schema(request=FileRequest, responses={200: PutFile, 201: PutFile})
    def post(self, request: Request, public_id: UUID) -> Response:
        """Put a file into the draft.

        A name that is there gets the new text (200). The same name with the same bytes changes nothing (200), so all
        files can be sent again after a lost connection. 409 when the draft was submitted or discarded.
        """
        body = read_body(request)
        return answer_once(request, get_user(request), body, lambda: self.put_file(request, public_id))

    def put_file(self, request: Request, public_id: UUID) -> Response:
        """Put the file."""
        campaign = find_own_campaign(request, public_id)
        form = FileRequest(data=request.data)
        form.is_valid(raise_exception=True)
        data = form.validated_data
        file, outcome = put_file(
            campaign=campaign,
            user=get_user(request),
            name=data["name"],
            content=data["source"],
            wall_clock_seconds=data["wall_clock_seconds"],
        )
        created = status.HTTP_201_CREATED if outcome is Put.ADDED else status.HTTP_200_OK
        return Response(StoredFile(file).data | {"outcome": outcome}, status=created)


class CampaignFileRemoval(APIView):
    """One file of a draft."""

    permission_classes = [MemberPermission]

    @extend_schema(responses={204: None})
    def delete(self, request: Request, public_id: UUID, number: int) -> Response:
        """Take the file out of the draft. 404 when it is not there, 409 when the draft has ended."""
        campaign = find_own_campaign(request, public_id)
        if not remove_files(campaign=campaign, user=get_user(request), files=[number]):
            raise NotFound("The draft has no file of this number.")
        return Response(status=status.HTTP_204_NO_CONTENT)


class CampaignConfirmation(APIView):
    """The step from a draft to its runs."""

    permission_classes = [MemberPermission]
    throttle_classes = [SubmissionLimit]

    @extend_schema(request=Confirmation, responses=CampaignDetail)
    def post(self, request: Request, public_id: UUID) -> Response:
        """Queue a run for every file, or for none.

        400 says what to mend first. 409: the draft was submitted or discarded, it changed since its `digest`, or bytes
        are submitted already and `allow_duplicates` is missing. 429: more runs than the team may submit now.
        """
        body = read_body(request)
        return answer_once(request, get_user(request), body, lambda: self.confirm(request, public_id))

    def confirm(self, request: Request, public_id: UUID) -> Response:
        """Confirm the draft."""
        campaign = find_own_campaign(request, public_id)
        form = Confirmation(data=request.data)
        form.is_valid(raise_exception=True)
        confirm_campaign(campaign=campaign, user=get_user(request), **form.validated_data)
        return show_detail(request, public_id)


class CampaignDiscarding(APIView):
    """The end of a draft."""

    permission_classes = [MemberPermission]

    @extend_schema(request=None, responses=CampaignDetail)
    def post(self, request: Request, public_id: UUID) -> Response:
        """Forget the draft and its files. 409 when it has ended."""
        body = read_body(request)
        return answer_once(request, get_user(request), body, lambda: self.discard(request, public_id))

    def discard(self, request: Request, public_id: UUID) -> Response:
        """Discard the draft."""
        discard_campaign(campaign=find_own_campaign(request, public_id), user=get_user(request))
        return show_detail(request, public_id)


class CampaignCancellation(APIView):
    """The end of runs before their verdicts."""

    permission_classes = [MemberPermission]

    @extend_schema(request=None, responses=CampaignDetail)
    def post(self, request: Request, public_id: UUID) -> Response:
        """Cancel the runs that have no verdict yet; a worker is asked to stop those in progress."""
        body = read_body(request)
        return answer_once(request, get_user(request), body, lambda: self.cancel(request, public_id))

    def cancel(self, request: Request, public_id: UUID) -> Response:
        """Cancel the runs."""
        cancel_campaign(campaign=find_own_campaign(request, public_id), user=get_user(request))
        return show_detail(request, public_id)
