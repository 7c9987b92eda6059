from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "portal.accounts"

    def ready(self) -> None:
        """Listen to what allauth tells by a signal alone."""
        from allauth.mfa.signals import authentication_failed  # noqa: PLC0415  models are ready only now

        from portal.accounts.adapter import record_wrong_code  # noqa: PLC0415  as above

        authentication_failed.connect(record_wrong_code, dispatch_uid="trail")
