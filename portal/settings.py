"""The portal's settings. Everything works without configuration; docs name the environment variables read here."""

from __future__ import annotations

import secrets
import sys
from os import getpid
from pathlib import Path

import environ
from csp.constants import NONE, SELF

BASE_DIR = Path(__file__).resolve().parent.parent

env = environ.Env()

# What the portal writes: the database, the secret key, locks and the folders of runs in progress.
VAR_DIR = Path(env.str("PORTAL_VAR", default=str(BASE_DIR / "var"))).resolve()


def read_secret_key(path: Path) -> str:
    """Return the key kept at `path`, which is made at the first call."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{getpid()}")
    if not path.exists():
        draft.touch(mode=0o600)
        draft.write_text(secrets.token_urlsafe(50), encoding="ascii")
        # A link fails when another process was first, whose key then holds.
        try:
            path.hardlink_to(draft)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    return path.read_text(encoding="ascii")


DEBUG = env.bool("PORTAL_DEBUG", default=False)
# Workers take these settings by way of `worker_settings`, which has a key of its own and never reads this one.
FOR_WORKER = env.str("DJANGO_SETTINGS_MODULE", default="") == "portal.worker_settings"
SECRET_KEY = "" if FOR_WORKER else env.str("PORTAL_SECRET_KEY", default="") or read_secret_key(VAR_DIR / "secret-key")
ALLOWED_HOSTS = env.list("PORTAL_ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.list("PORTAL_CSRF_TRUSTED_ORIGINS", default=[])

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    # allauth's list of passkeys says with it when each was used.
    "django.contrib.humanize",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.usersessions",
    "csp",
    "django_filters",
    "django_htmx",
    "django_q",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "rest_framework",
    "portal.accounts",
    "portal.catalog",
    "portal.systems",
    "portal.runs",
    "portal.campaigns",
    "portal.imports",
    "portal.standings",
    "portal.review",
    "portal.notifications",
    "portal.api",
    "portal.ops",
]

MIDDLEWARE = [
    "portal.review.middleware.OriginMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "portal.ops.middleware.PermissionsPolicyMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "portal.ops.middleware.BodyLimitMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "allauth.usersessions.middleware.UserSessionsMiddleware",
    "portal.accounts.middleware.SecondFactorMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

ROOT_URLCONF = "portal.urls"
WSGI_APPLICATION = "portal.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "portal.notifications.views.count_unread",
            ],
        },
    },
]

DATABASES = {"default": env.db_url("DATABASE_URL", default=f"sqlite:///{VAR_DIR / 'portal.sqlite3'}")}
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    # A transaction that reads first and writes later ends in "database is locked" unless it is immediate.
    DATABASES["default"]["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
    }
    # A file, because tests of two processes need one, and named by the process, so that two test runs do not meet.
    DATABASES["default"]["TEST"] = {"NAME": str(VAR_DIR / f"test-{getpid()}.sqlite3")}
else:
    DATABASES["default"]["CONN_MAX_AGE"] = 60
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# Throttles count here, so all processes of a web host share it.
CACHES = {"default": env.cache_url("PORTAL_CACHE_URL", default=f"filecache://{VAR_DIR / 'cache'}")}
CACHES["default"].setdefault("OPTIONS", {})["MAX_ENTRIES"] = 2_000

AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "/sign-in/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/"

ACCOUNT_ADAPTER = "portal.accounts.adapter.AccountAdapter"
ACCOUNT_LOGIN_METHODS = {"username", "email"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "email*", "password1*", "password2*"]
ACCOUNT_EMAIL_VERIFICATION = "mandatory"
ACCOUNT_EMAIL_SUBJECT_PREFIX = "KernelQuest: "
ACCOUNT_DEFAULT_HTTP_PROTOCOL = "https" if env.bool("PORTAL_HTTPS", default=False) else "http"
ACCOUNT_SESSION_REMEMBER = True
ACCOUNT_REAUTHENTICATION_REQUIRED = True
ACCOUNT_REAUTHENTICATION_METHODS = ["password", "mfa"]
ACCOUNT_FORMS = {"login": "portal.accounts.forms.SignInForm"}
ACCOUNT_USERNAME_BLACKLIST = ["admin", "root", "staff", "kernelquest"]
ACCOUNT_USERNAME_VALIDATORS = "portal.accounts.names.USERNAME_VALIDATORS"
USERSESSIONS_ADAPTER = "portal.accounts.adapter.SessionsAdapter"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_TOTP_ISSUER = "KernelQuest"
USERSESSIONS_TRACK_ACTIVITY = True
# Reviewers and administrators see no page before they have set up a second factor.
SECOND_FACTOR_REQUIRED = env.bool("PORTAL_SECOND_FACTOR", default=True)
INVITATION_DAYS = 7

# Where people reach the portal; links in mail begin with it.
PUBLIC_ADDRESS = env.str("PORTAL_ADDRESS", default="http://127.0.0.1:8000").rstrip("/")
# Without a mail server, mail lies in files where the administrator can read it.
vars().update(env.email_url("PORTAL_EMAIL_URL", default=f"filemail:///{VAR_DIR / 'mail'}"))
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = env.str("PORTAL_FROM_EMAIL", default="KernelQuest <kernelquest@localhost>")
SERVER_EMAIL = DEFAULT_FROM_EMAIL

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True

STATIC_URL = "static/"
STATIC_ROOT = BASE_DIR / "staticfiles"
STATICFILES_DIRS = [BASE_DIR / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if DEBUG
        else "whitenoise.storage.CompressedManifestStaticFilesStorage"
    },
}
WHITENOISE_USE_FINDERS = DEBUG

# No request is larger, whatever it carries. A submission has its own, smaller limit.
MAX_BODY_BYTES = 1024 * 1024
DATA_UPLOAD_MAX_MEMORY_SIZE = MAX_BODY_BYTES
FILE_UPLOAD_MAX_MEMORY_SIZE = MAX_BODY_BYTES
FILE_UPLOAD_HANDLERS = ["django.core.files.uploadhandler.MemoryFileUploadHandler"]

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        # The hash of the empty string: the chart library adds one empty style element.
        "style-src": [SELF, "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"],
        "img-src": [SELF, "data:"],
        "connect-src": [SELF],
        "font-src": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "base-uri": [NONE],
    }
}
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_HTTPONLY = True
if env.bool("PORTAL_HTTPS", default=False):
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_SSL_REDIRECT = True
    # Whoever looks whether the host is alive does so from inside, without the proxy.
    SECURE_REDIRECT_EXEMPT = [r"^healthz/"]
    SECURE_HSTS_SECONDS = 365 * 24 * 3600
    SECURE_HSTS_INCLUDE_SUBDOMAINS = env.bool("PORTAL_HSTS_SUBDOMAINS", default=True)
    SESSION_COOKIE_SECURE = True
    CSRF_COOKIE_SECURE = True
    # Browsers take cookies of these names over https alone, for this very host and all of it.
    SESSION_COOKIE_NAME = "__Host-session"
    CSRF_COOKIE_NAME = "__Host-csrf"
# Whether browsers ship with the whole domain on their list is for its owner to say, and hard to take back.
SILENCED_SYSTEM_CHECKS = ["security.W021"]

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "portal.api.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["portal.api.authentication.ScopePermission"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_THROTTLE_CLASSES": ["portal.api.limits.VisitorLimit", "portal.api.limits.MemberLimit"],
    "DEFAULT_THROTTLE_RATES": {
        "visitor": "120/min",
        "member": "600/min",
        "submission": "600/hour",
        "refusal": "30/min",
        **env.dict("PORTAL_API_RATES", default={}),
    },
    "EXCEPTION_HANDLER": "portal.api.problems.answer_error",
    "UNICODE_JSON": True,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "KernelQuest",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "DESCRIPTION": "Tasks, runs and verdicts. Writing needs a token; errors are problems as RFC 9457 has them.",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_NAME_OVERRIDES": {
        "CampaignStateEnum": "portal.campaigns.models.Campaign.State",
        "OutcomeEnum": "verifier.verdict.Outcome",
        "RunStateEnum": "portal.runs.states.State",
    },
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "portal.api.schema.add_errors",
    ],
}

# The environments for which runs are accepted at all times; those of a running worker are accepted besides.
SERVED_ENVIRONMENTS = env.list("PORTAL_ENVIRONMENTS", default=["cpu-interpreter"])
# How many runs a team may submit in 24 hours, and have waiting for their verdict; a team may have figures of its own.
RUNS_A_DAY = env.int("PORTAL_RUNS_A_DAY", default=600)
OPEN_RUNS = env.int("PORTAL_OPEN_RUNS", default=400)
# The program that judges; `verify TASK FILE ...` is appended.
VERIFIER_COMMAND = env.list("PORTAL_VERIFIER_COMMAND", default=[sys.executable, "-m", "verifier"])
# Submissions lie here while they are judged.
WORK_DIR = VAR_DIR / "work"
VERIFICATION_TIMEOUT_SECONDS = env.int("PORTAL_VERIFICATION_TIMEOUT", default=900)
# On a GPU a model is compiled, an autotuner may run, and everything is timed: up to 25 minutes.
TIMED_VERIFICATION_TIMEOUT_SECONDS = env.int("PORTAL_TIMED_VERIFICATION_TIMEOUT", default=2_400)
# Waiting for a GPU that somebody else uses does not count; after an hour the verifier itself gives up.
GPU_WAIT_SECONDS = 3_900
LEASE_SECONDS = env.int("PORTAL_LEASE_SECONDS", default=30)
LEASE_RENEWAL_SECONDS = LEASE_SECONDS / 6
# How long a due run may wait beside an idle cluster before the cluster counts as stalled.
STALL_SECONDS = env.int("PORTAL_STALL_SECONDS", default=30)

# What django-q2 permits one run: more than the longest that a worker itself permits.
_LONGEST_RUN_SECONDS = max(VERIFICATION_TIMEOUT_SECONDS, TIMED_VERIFICATION_TIMEOUT_SECONDS) + GPU_WAIT_SECONDS + 60

# django-q2 carries wake-ups only: a lost, repeated or late one is harmless (docs/decisions.md).
Q_CLUSTER = {
    "name": "kernelquest",
    "orm": "default",
    "workers": 1,
    "queue_limit": 1,
    "bulk": 1,
    "poll": 0.5,
    "recycle": 1,
    "timeout": _LONGEST_RUN_SECONDS,
    "retry": 4 * _LONGEST_RUN_SECONDS,
    "ack_failures": True,
    "max_attempts": 1,
    "save_limit": -1,
    "catch_up": False,
    "scheduler": False,
    # Each worker has a cluster of its own, named by `Q_CLUSTER_NAME`; all share the settings above.
    "ALT_CLUSTERS": {},
}

LOG_LEVEL = env.str("PORTAL_LOG_LEVEL", default="INFO")
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "plain": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"},
        "json": {"()": "portal.ops.logs.build_json_formatter"},
    },
    "handlers": {
        "console": {
            "class": "logging.StreamHandler",
            "formatter": "json" if env.str("PORTAL_LOG_FORMAT", default="plain") == "json" else "plain",
        },
    },
    "root": {"handlers": ["console"], "level": LOG_LEVEL},
    # django-q2 adds a handler of its own when its logger has none.
    "loggers": {"django-q": {"handlers": ["console"], "level": "WARNING", "propagate": False}},
}
