"""OAuth tokens for Google Cloud from its application default credentials, by the ``google-auth`` library.

Where they are found: https://cloud.google.com/docs/authentication/application-default-credentials. ``sign_in_options``
of the profile: ``scope``. Knows no wire and no model.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping
from datetime import UTC
from pathlib import Path
from typing import Any

from turnwired.domain.errors import ProviderError
from turnwired.domain.failure import Reason
from turnwired.providers.cloud.surroundings import any_file, any_set, home, installed, made_by, options_of, quiet
from turnwired.providers.cloud.token import REQUEST_SECONDS, Token, TokenCredentials
from turnwired.providers.errors import provider_failure
from turnwired.providers.profiles import Profile

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_FILE = "GOOGLE_APPLICATION_CREDENTIALS"
_USERS_FILE = "application_default_credentials.json"
_ON_GOOGLE = (("GCE_METADATA_HOST",), ("K_SERVICE",), ("CLOUD_RUN_JOB",), ("GAE_RUNTIME",), ("FUNCTION_TARGET",))
_UNKNOWN_LIFE = 300.0  # seconds: for a token that does not say when it expires
_INSTALL = "signs in to Google Cloud, for which a library is missing: pip install 'turnwired[cloud-google]'"


def google_credentials(profile: Profile, environ: Mapping[str, str]) -> TokenCredentials:
    """Credentials that sign in to Google Cloud as the profile says."""
    return TokenCredentials(GoogleSource(profile, environ), profile.name)


class GoogleSource:
    """Tokens of a service account, a federated workload, gcloud's user or the machine."""

    def __init__(self, profile: Profile, environ: Mapping[str, str]) -> None:
        self._provider = profile.name
        self._options = options_of(profile, scope=())
        self._environ = environ

    @property
    def hint(self) -> str:
        """Where a person puts what is needed."""
        return f"the Google Cloud sign-in (the file that {_FILE} names, or the application default credentials)"

    @property
    def lack(self) -> str:
        """What is missing."""
        if not (installed("google.auth") and installed("requests")):
            return _INSTALL
        environ = self._environ
        settings = environ.get("CLOUDSDK_CONFIG") or (environ.get("APPDATA", "") and f"{environ['APPDATA']}/gcloud")
        users = Path(settings) if settings else home(environ) / ".config" / "gcloud"
        if any_set(environ, (_FILE,), *_ON_GOOGLE) or any_file(users / _USERS_FILE) or made_by("Google"):
            return ""
        return (
            f"finds nothing to sign in to Google Cloud with: set {_FILE} to a credentials file, "
            "or run `gcloud auth application-default login`"
        )

    def fetch(self) -> Token:
        """A new token. The credentials are read anew, so that a file that was replaced counts.

        The library reads the variables of the process; ``environ`` only tells beforehand whether it may find something.
        """
        quiet(("google.auth", "google.oauth2", "urllib3", "requests"))
        try:
            from google.auth import default
            from google.auth.exceptions import GoogleAuthError
            from google.auth.transport.requests import Request
        except ImportError:
            raise provider_failure(
                Reason.PROVIDER_NOT_CONFIGURED, f"Provider {self._provider} {_INSTALL}.", origin=self._provider
            ) from None
        scopes = [self._options.get("scope") or SCOPE]
        request: Any = functools.partial(Request(), timeout=int(REQUEST_SECONDS))
        try:
            credentials: Any = default(scopes=scopes, request=request)[0]  # most of it has no types
            credentials.refresh(request)
        except (GoogleAuthError, ValueError, OSError) as error:
            raise self._failure(error) from None
        if not isinstance(credentials.token, str) or not credentials.token:
            raise self._failure(ValueError())
        expiry = credentials.expiry  # in UTC, without saying so
        expires = expiry.replace(tzinfo=UTC).timestamp() if expiry is not None else time.time() + _UNKNOWN_LIFE
        payer = getattr(credentials, "quota_project_id", None)
        return Token(credentials.token, expires, {"x-goog-user-project": payer} if isinstance(payer, str) else {})

    def _failure(self, error: Exception) -> ProviderError:
        from google.auth.exceptions import DefaultCredentialsError, RefreshError, TransportError

        match error:
            case DefaultCredentialsError() | ValueError():
                reason, retryable = Reason.PROVIDER_NOT_CONFIGURED, False
                words = f"Provider {self._provider} cannot sign in to Google Cloud: nothing works in {self.hint}."
            case RefreshError() if not error.retryable:
                reason, retryable = Reason.PROVIDER_AUTH_FAILED, False
                words = f"Google Cloud rejects the sign-in of provider {self._provider}: check {self.hint}."
            case TransportError() | OSError():
                reason, retryable = Reason.PROVIDER_NETWORK, True
                words = f"Google Cloud's token server cannot be reached for provider {self._provider}: check network."
            case _:
                reason, retryable = Reason.PROVIDER_UNAVAILABLE, True
                words = f"Google Cloud's token server failed to answer provider {self._provider}: try again."
        return provider_failure(reason, words, retryable=retryable, origin=self._provider)
