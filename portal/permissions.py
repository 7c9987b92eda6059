"""Who gets what: every address and every operation of the API, for every role. A test walks all of them.

Where an address names something, it is something of a team: a run that only the team sees, its source unreleased; a
draft of a campaign; a token, a passkey. A role that gets nothing is told that there is nothing (404), or, before it
has signed in, to sign in. The decisions themselves are made beside what they protect: `visible_to` of the querysets,
the services, and `portal.review.permissions`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """Somebody, as seen from the team whose things are asked for."""

    ANONYMOUS = "anonymous"
    WORKER = "worker"  # it works on the database alone; whatever its host signs opens nothing here
    STRANGER = "stranger"  # a member of another team
    MEMBER = "member"
    OWNER = "owner"  # of the team, who also submitted the run
    REVIEWER = "reviewer"
    ADMINISTRATOR = "administrator"


Roles = frozenset[Role]

NOBODY: Roles = frozenset()
EVERYBODY: Roles = frozenset(Role)
SIGNED_IN = EVERYBODY - {Role.ANONYMOUS, Role.WORKER}
REVIEWERS: Roles = frozenset({Role.REVIEWER, Role.ADMINISTRATOR})
ADMINISTRATORS: Roles = frozenset({Role.ADMINISTRATOR})
OWNERS: Roles = frozenset({Role.OWNER})
TEAM: Roles = frozenset({Role.MEMBER, Role.OWNER})
READERS = TEAM | REVIEWERS
KEEPERS = TEAM | ADMINISTRATORS


@dataclass(frozen=True)
class Rule:
    """Who gets something from an address by reading it, and by writing to it."""

    read: Roles = NOBODY
    write: Roles = NOBODY


PUBLIC = Rule(EVERYBODY)
PERSONAL = Rule(SIGNED_IN, SIGNED_IN)
# allauth's forms of the entrance lead whoever has signed in elsewhere, and refuse nobody.
ENTRANCE = Rule(EVERYBODY, EVERYBODY)

ADDRESSES: dict[str, Rule] = {
    **dict.fromkeys(
        (
            *("standings:board", "standings:board_csv", "standings:board_json", "standings:board_feed"),
            *("standings:published_csv", "standings:published_json", "standings:levels", "standings:failures"),
            *("standings:compare", "standings:spotlight", "standings:methodology", "standings:contract"),
            *(
                "standings:style",
                "standings:systems",
                "catalog:task_list",
                "catalog:task_detail",
                "runs:run_list",
                "runs:sample",
            ),
            *("api:schema", "api:docs", "ops:live", "ops:ready"),
        ),
        PUBLIC,
    ),
    "standings:system": Rule(READERS),
    "api:unknown": Rule(),
    # Runs.
    "runs:submit": PERSONAL,
    "runs:run_detail": Rule(READERS),
    "runs:run_status": Rule(READERS),
    "runs:verdict": Rule(READERS),
    "runs:source": Rule(READERS),
    "runs:cancel": Rule(write=KEEPERS),
    "runs:visibility": Rule(write=KEEPERS),
    # Campaigns: the draft of a team is its own.
    "campaigns:campaign_list": Rule(SIGNED_IN),
    "campaigns:begin": PERSONAL,
    "campaigns:campaign": Rule(TEAM),
    "campaigns:progress": Rule(TEAM),
    "campaigns:add_files": Rule(write=TEAM),
    "campaigns:remove_files": Rule(write=TEAM),
    "campaigns:confirm": Rule(write=TEAM),
    "campaigns:discard": Rule(write=TEAM),
    "campaigns:cancel": Rule(write=TEAM),
    "campaigns:visibility": Rule(write=TEAM),
    # Reviews. That nobody decides on a run of their own team is a question of the run.
    "review:queue": Rule(REVIEWERS),
    "review:trail": Rule(REVIEWERS),
    "review:case": Rule(REVIEWERS),
    "review:take": Rule(write=REVIEWERS),
    "review:release": Rule(write=REVIEWERS),
    "review:decide": Rule(write=REVIEWERS),
    "review:find_difference": Rule(REVIEWERS),
    "review:difference": Rule(REVIEWERS),
    "review:verify_again": Rule(ADMINISTRATORS, ADMINISTRATORS),
    "review:batch": Rule(ADMINISTRATORS),
    "review:appeal": Rule(write=TEAM),
    "review:reply": Rule(write=TEAM),
    # Teams and accounts.
    "accounts:home": Rule(SIGNED_IN),
    "accounts:second_factor": Rule(SIGNED_IN),
    "accounts:tokens": PERSONAL,
    "accounts:revoke_token": Rule(write=OWNERS),
    "accounts:found_team": PERSONAL,
    "accounts:team": Rule(READERS),
    "accounts:invite": Rule(write=OWNERS),
    "accounts:withdraw": Rule(write=OWNERS),
    "accounts:set_role": Rule(write=OWNERS),
    # A member is removed, or leaves.
    "accounts:remove_member": Rule(write=TEAM),
    "accounts:webhook": Rule(write=OWNERS),
    "accounts:add_system": Rule(OWNERS, OWNERS),
    "accounts:change_system": Rule(OWNERS, OWNERS),
    # Whoever has the link of an invitation may use it, with an account.
    "accounts:invitation": PERSONAL,
    "notifications:list": Rule(SIGNED_IN),
    "notifications:read": Rule(write=SIGNED_IN),
    "notifications:preferences": PERSONAL,
    **dict.fromkeys(
        (
            *("account_login", "account_logout", "account_signup", "account_confirm_email"),
            *("account_reset_password", "account_reset_password_from_key", "mfa_authenticate", "mfa_login_webauthn"),
        ),
        ENTRANCE,
    ),
    **dict.fromkeys(
        (
            *("account_inactive", "account_email_verification_sent", "account_reset_password_done"),
            "account_reset_password_from_key_done",
        ),
        PUBLIC,
    ),
    **dict.fromkeys(
        (
            *("account_reauthenticate", "account_email", "account_change_password", "account_set_password"),
            *("mfa_reauthenticate", "mfa_activate_totp", "mfa_deactivate_totp", "mfa_generate_recovery_codes"),
            *("mfa_add_webauthn", "mfa_reauthenticate_webauthn", "usersessions_list"),
        ),
        PERSONAL,
    ),
    "mfa_index": Rule(SIGNED_IN),
    "mfa_list_webauthn": Rule(SIGNED_IN),
    "mfa_view_recovery_codes": Rule(SIGNED_IN),
    "mfa_download_recovery_codes": Rule(SIGNED_IN),
    "mfa_remove_webauthn": Rule(OWNERS, OWNERS),
    "mfa_edit_webauthn": Rule(OWNERS, OWNERS),
}

OPERATIONS: dict[str, Roles] = {
    "GET /api/v1/tasks/": EVERYBODY,
    "GET /api/v1/tasks/{task}/": EVERYBODY,
    "GET /api/v1/environments/": EVERYBODY,
    "GET /api/v1/environments/{slug}/": EVERYBODY,
    "GET /api/v1/systems/": EVERYBODY,
    "GET /api/v1/systems/{slug}/": READERS,
    "GET /api/v1/me/": SIGNED_IN,
    "GET /api/v1/runs/": EVERYBODY,
    # For systems of one's own teams; any system, for administrators.
    "POST /api/v1/runs/": SIGNED_IN,
    "GET /api/v1/runs/{public_id}/": READERS,
    "PATCH /api/v1/runs/{public_id}/": KEEPERS,
    "POST /api/v1/runs/{public_id}/cancel/": KEEPERS,
    "GET /api/v1/runs/{public_id}/verdict/": READERS,
    "GET /api/v1/runs/{public_id}/source/": READERS,
    "GET /api/v1/campaigns/": SIGNED_IN,
    "POST /api/v1/campaigns/": SIGNED_IN,
    "GET /api/v1/campaigns/{public_id}/": TEAM,
    "PATCH /api/v1/campaigns/{public_id}/": TEAM,
    "POST /api/v1/campaigns/{public_id}/cancel/": TEAM,
    "POST /api/v1/campaigns/{public_id}/confirm/": TEAM,
    "POST /api/v1/campaigns/{public_id}/discard/": TEAM,
    "GET /api/v1/campaigns/{public_id}/files/": TEAM,
    "POST /api/v1/campaigns/{public_id}/files/": TEAM,
    "DELETE /api/v1/campaigns/{public_id}/files/{number}/": TEAM,
}
