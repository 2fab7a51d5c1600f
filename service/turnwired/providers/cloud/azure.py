"""Microsoft Entra ID tokens for Azure, by the ``azure-identity`` library. Knows no wire and no model.

Environment and options: https://learn.microsoft.com/python/api/azure-identity. ``sign_in_options`` of the profile:
``scope`` (what the token is for), ``identity`` (``managed``: that of the machine, ``default``: whatever the library
finds) and ``instance_discovery`` (``off`` for authorities that the public cloud does not know).
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from turnwired.domain.errors import ProviderError
from turnwired.domain.failure import Reason
from turnwired.providers.cloud.surroundings import any_file, any_set, home, installed, made_by, options_of, quiet
from turnwired.providers.cloud.token import REQUEST_SECONDS, Token, TokenCredentials
from turnwired.providers.errors import provider_failure
from turnwired.providers.profiles import Profile

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential

SCOPE = "https://cognitiveservices.azure.com/.default"
"""Azure OpenAI and Foundry's models."""
_APPLICATION = ("AZURE_TENANT_ID", "AZURE_CLIENT_ID")
_SECRET, _CERTIFICATE, _FEDERATED = "AZURE_CLIENT_SECRET", "AZURE_CLIENT_CERTIFICATE_PATH", "AZURE_FEDERATED_TOKEN_FILE"
_MACHINE_TAG = "7783-7084-3265-9085-8269-3286-77"  # the asset tag of every virtual machine on Azure
_ENTRA_CODE = re.compile(r"\bAADSTS\d{3,9}\b")
_INSTALL = "signs in to Azure, for which a library is missing: pip install 'turnwired[cloud-azure]'"


def azure_credentials(profile: Profile, environ: Mapping[str, str]) -> TokenCredentials:
    """Credentials that sign in to Azure as the profile says."""
    return TokenCredentials(AzureSource(profile, environ), profile.name)


class AzureSource:
    """Tokens of a service principal, a workload identity, the machine's identity or the Azure CLI's user."""

    def __init__(self, profile: Profile, environ: Mapping[str, str]) -> None:
        self._provider = profile.name
        identities = ("managed", "default")
        self._options = options_of(profile, scope=(), identity=identities, instance_discovery=("on", "off"))
        self._environ = environ

    @property
    def hint(self) -> str:
        """Where a person puts what is needed."""
        return f"the Azure sign-in ({', '.join(_APPLICATION)} and {_SECRET}, or a managed identity)"

    @property
    def lack(self) -> str:
        """What is missing."""
        if not installed("azure.identity"):
            return _INSTALL
        if self._has_identity():
            return ""
        return (
            f"finds nothing to sign in to Azure with: set {', '.join(_APPLICATION)} and one of {_SECRET}, "
            f"{_CERTIFICATE} and {_FEDERATED}, or sign in with `az login`, "
            'or set identity = "managed" in the profile\'s sign_in_options'
        )

    def _has_identity(self) -> bool:
        environ = self._environ
        return (
            "identity" in self._options
            or any_set(environ, *((*_APPLICATION, name) for name in (_SECRET, _CERTIFICATE, _FEDERATED)))
            or any_set(environ, ("IDENTITY_ENDPOINT",), ("MSI_ENDPOINT",), ("AZURE_TOKEN_CREDENTIALS",))
            or (shutil.which("az") is not None and any_file(home(environ) / ".azure" / "azureProfile.json"))
            or made_by(_MACHINE_TAG)
        )

    def fetch(self) -> Token:
        """A new token. A credential made for this one request has no cache that could give the old one again."""
        quiet(("azure", "msal", "urllib3"))
        try:
            from azure.core.exceptions import AzureError
        except ImportError:
            raise provider_failure(
                Reason.PROVIDER_NOT_CONFIGURED, f"Provider {self._provider} {_INSTALL}.", origin=self._provider
            ) from None
        try:
            credential = self._credential()
            try:
                found = credential.get_token(self._options.get("scope") or SCOPE)
            finally:
                getattr(credential, "close", _nothing)()
        except (AzureError, ValueError, OSError) as error:
            raise self._failure(error) from None
        return Token(found.token, float(found.expires_on))

    def _credential(self) -> TokenCredential:
        from azure.identity import (
            CertificateCredential,
            ClientSecretCredential,
            DefaultAzureCredential,
            ManagedIdentityCredential,
            WorkloadIdentityCredential,
        )

        environ = self._environ
        tenant, client = (environ.get(name, "").strip() for name in _APPLICATION)
        # The turn machine tries again; what the library would wait for in between is lost to the run.
        limits: dict[str, Any] = {
            "retry_total": 0,
            "connection_timeout": REQUEST_SECONDS,
            "read_timeout": REQUEST_SECONDS,
        }
        entra = limits | {"disable_instance_discovery": self._options.get("instance_discovery") == "off"}
        if authority := environ.get("AZURE_AUTHORITY_HOST"):
            entra["authority"] = authority
        match self._options.get("identity"):
            case "managed":
                return ManagedIdentityCredential(client_id=client or None, **limits)
            case "default":
                return DefaultAzureCredential(process_timeout=int(REQUEST_SECONDS), **limits)
            case _:
                pass
        if tenant and client and (secret := environ.get(_SECRET, "").strip()):
            return ClientSecretCredential(tenant, client, secret, **entra)
        if tenant and client and (certificate := environ.get(_CERTIFICATE, "").strip()):
            password = environ.get("AZURE_CLIENT_CERTIFICATE_PASSWORD")
            return CertificateCredential(tenant, client, certificate, password=password, **entra)
        if tenant and client and (file := environ.get(_FEDERATED, "").strip()):
            return WorkloadIdentityCredential(tenant_id=tenant, client_id=client, token_file_path=file, **entra)
        return DefaultAzureCredential(process_timeout=int(REQUEST_SECONDS), **limits)

    def _failure(self, error: Exception) -> ProviderError:
        from azure.core.exceptions import (
            AzureError,
            ClientAuthenticationError,
            ServiceRequestError,
            ServiceResponseError,
        )
        from azure.identity import CredentialUnavailableError

        code = found.group() if (found := _ENTRA_CODE.search(str(error))) else ""
        shown = f" ({code})" if code else ""
        if isinstance(error, ClientAuthenticationError) and isinstance(error.__cause__, AzureError | OSError):
            error = error.__cause__  # the library calls everything that happens a rejection
        match error:
            case CredentialUnavailableError() | ValueError():
                reason, retryable = Reason.PROVIDER_NOT_CONFIGURED, False
                words = f"Provider {self._provider} cannot sign in to Azure: nothing that works is in {self.hint}."
            case ClientAuthenticationError():
                reason, retryable = Reason.PROVIDER_AUTH_FAILED, False
                words = (
                    f"Microsoft Entra ID rejects the sign-in of provider {self._provider}{shown}: check {self.hint}."
                )
            case ServiceRequestError() | ServiceResponseError() | OSError():
                reason, retryable = Reason.PROVIDER_NETWORK, True
                words = f"Microsoft Entra ID cannot be reached for provider {self._provider}: check network and proxy."
            case _:
                reason, retryable = Reason.PROVIDER_UNAVAILABLE, True
                words = f"Microsoft Entra ID failed to answer provider {self._provider}{shown}: try again."
        return provider_failure(reason, words, retryable=retryable, origin=self._provider, code=code)


def _nothing() -> None:
    """For credentials that hold nothing."""
