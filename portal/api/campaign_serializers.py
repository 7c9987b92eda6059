"""What the API shows of campaigns and their drafts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import Count
from django.urls import reverse
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from portal.api.serializers import QuotaDetail, WallClockField
from portal.campaigns.models import Campaign, CampaignFile
from portal.campaigns.preview import Preview, Row
from portal.campaigns.services import Put
from portal.runs.models import Run
from portal.runs.querysets import RunQuerySet
from portal.runs.quotas import read_quota

if TYPE_CHECKING:
    from portal.api.serializers import Slug


class CampaignSummary(serializers.ModelSerializer[Campaign]):
    id = serializers.UUIDField(source="public_id")
    system: Slug = serializers.SlugRelatedField("slug", read_only=True)
    team: Slug = serializers.SlugRelatedField("slug", read_only=True)
    environment = serializers.CharField(source="environment_id")
    state = serializers.ChoiceField(Campaign.State.choices)
    visibility = serializers.ChoiceField(Run.Visibility.choices)
    created_by: Slug = serializers.SlugRelatedField("username", read_only=True)
    files = serializers.IntegerField(source="file_count", help_text="Files of the draft; none once it was submitted.")
    runs = serializers.IntegerField(source="run_count")
    page = serializers.SerializerMethodField(help_text="The address of the campaign's page.")

    class Meta:
        model = Campaign
        fields = ["id", "title", "system", "team", "environment", "state", "visibility", "source_released"]
        fields += ["created_by", "created_at", "changed_at", "submitted_at", "files", "runs", "page"]

    def get_page(self, campaign: Campaign) -> str:
        return reverse("campaigns:campaign", args=[campaign.public_id])


class CampaignDetail(CampaignSummary):
    states = serializers.SerializerMethodField(help_text="How many of the runs that you see are in each state.")
    outcomes = serializers.SerializerMethodField(help_text="How many of them have each outcome.")
    quota = serializers.SerializerMethodField(help_text="What is left to the team.")

    class Meta(CampaignSummary.Meta):
        fields = [*CampaignSummary.Meta.fields, "states", "outcomes", "quota"]

    def list_runs(self, campaign: Campaign) -> RunQuerySet:
        return Run.objects.visible_to(self.context["request"].user).filter(campaign=campaign).order_by()

    def get_states(self, campaign: Campaign) -> dict[str, int]:
        return dict(self.list_runs(campaign).values_list("state").annotate(Count("pk")))

    def get_outcomes(self, campaign: Campaign) -> dict[str, int]:
        judged = self.list_runs(campaign).filter(verdict__isnull=False)
        return dict(judged.values_list("verdict__outcome").annotate(Count("pk")))

    @extend_schema_field(QuotaDetail)
    def get_quota(self, campaign: Campaign) -> dict[str, Any]:
        return dict(QuotaDetail(read_quota(campaign.team)).data)


class DraftRequest(serializers.Serializer[Any]):
    system = serializers.CharField(max_length=60)
    environment = serializers.CharField(max_length=60)
    title = serializers.CharField(max_length=120, default="", allow_blank=True)
    visibility = serializers.ChoiceField(Run.Visibility.choices, default=Run.Visibility.PRIVATE)
    release_source = serializers.BooleanField(default=False)


class FileRequest(serializers.Serializer[Any]):
    name = serializers.CharField(
        max_length=1000,
        help_text="The path within the campaign. It names the task by number or slug, and the repetition: "
        "`l1-09/2.py`, `l1-09_rep2.py`, `rep2/sparsemax-rows.py`. Without a number it is the first.",
    )
    source = serializers.CharField(  # type: ignore[assignment]
        trim_whitespace=False, help_text="The text of the file, at most 256 KiB."
    )
    wall_clock_seconds = WallClockField()


class StoredFile(serializers.ModelSerializer[CampaignFile]):
    number = serializers.IntegerField(source="pk", help_text="By which the file can be removed.")

    class Meta:
        model = CampaignFile
        fields = ["number", "name", "sha256", "bytes", "wall_clock_seconds"]


class PutFile(StoredFile):
    outcome = serializers.ChoiceField([put.value for put in Put], help_text="`recognised`: it was there already.")

    class Meta(StoredFile.Meta):
        fields = [*StoredFile.Meta.fields, "outcome"]


class PreviewRow(serializers.Serializer[Row]):
    """One file of a draft, and the run that it would become."""

    number = serializers.IntegerField(source="file.pk", help_text="By which the file can be removed.")
    name = serializers.CharField(source="file.name")
    sha256 = serializers.CharField(source="file.sha256")
    bytes = serializers.IntegerField(source="file.bytes")
    wall_clock_seconds = serializers.IntegerField(source="file.wall_clock_seconds", allow_null=True)
    task = serializers.CharField(source="task.pk", default=None, allow_null=True)
    repetition = serializers.IntegerField(allow_null=True)
    problem = serializers.CharField(help_text="Why no run can be made of it, or empty.")
    earlier_run = serializers.UUIDField(
        source="earlier.public_id", default=None, allow_null=True, help_text="A run of the same bytes."
    )
    twin = serializers.CharField(help_text="Another file of the draft with the same bytes for the same task, or empty.")


class DraftPreview(serializers.Serializer[Preview]):
    """What a draft would become."""

    digest = serializers.CharField(help_text="Changes with the draft. Send it with the confirmation.")
    files = PreviewRow(source="rows", many=True)


class Confirmation(serializers.Serializer[Any]):
    digest = serializers.CharField(
        max_length=64, allow_null=True, default=None, help_text="Of the draft that you looked at; 409 when it changed."
    )
    allow_duplicates = serializers.BooleanField(
        default=False, help_text="Submit although bytes are submitted for their tasks already; without it 409."
    )
