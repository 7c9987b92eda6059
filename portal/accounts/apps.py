from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "portal.accounts"

    def ready(self) -> None:
        """Listen to what allauth tells by a signal alone."""
        from allauth.mfa.signals import authentication_failed, authenticator_added  # noqa: PLC0415  models are ready only now

        from portal.accounts.adapter import note_second_factor, record_wrong_code  # noqa: PLC0415  as above

        authentication_failed.connect(record_wrong_code, dispatch_uid="trail")
        authenticator_added.connect(note_second_factor, dispatch_uid="session")
