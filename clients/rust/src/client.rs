//! The connection to a server: its address, the caller's token, deadlines, limits, and which calls may be tried again.

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Response, Status};

use crate::cursor::Resume;
use crate::error::{Error, SetupError};
use crate::v1::turn_service_client::TurnServiceClient;

/// The channel, with the caller's token in each call: what a generated stub is made of.
pub type Service = InterceptedService<Channel, Bearer>;

/// Tries of a call that is safe to make twice, the first one counted.
const TRIES: u32 = 4;

/// How long a server may take to accept a connection, or to show a sign of life.
const CONNECT_TIME: Duration = Duration::from_secs(20);

/// Calls a Turnwire server. Cheap to clone; clones share the connection.
#[derive(Debug, Clone)]
pub struct Client {
    service: Service,
    deadline: Duration,
    max_message_bytes: usize,
}

impl Client {
    /// A client of the server at `target`: `host:port`, or a URL. It connects with the first call.
    #[must_use]
    pub fn builder(target: impl Into<String>) -> Builder {
        Builder {
            target: target.into(),
            token: None,
            deadline: Duration::from_secs(30),
            max_message_bytes: 16 << 20,
            keep_alive: None,
            #[cfg(feature = "tls")]
            tls: None,
        }
    }

    /// The same client, whose unary calls have this long.
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        Self { deadline, ..self.clone() }
    }

    /// What to make a generated stub of, for calls that this client has no method for.
    #[must_use]
    pub fn service(&self) -> Service {
        self.service.clone()
    }

    /// The largest message that is sent or taken.
    #[must_use]
    pub fn max_message_bytes(&self) -> usize {
        self.max_message_bytes
    }

    pub(crate) fn turns(&self) -> TurnServiceClient<Service> {
        TurnServiceClient::new(self.service())
            .max_decoding_message_size(self.max_message_bytes)
            .max_encoding_message_size(self.max_message_bytes)
    }

    /// Refuses a request that is too large as a server would. The channel itself says only that it broke, which would be
    /// taken for a cut.
    pub(crate) fn check(&self, request: &impl prost::Message) -> Result<(), Status> {
        let (size, limit) = (request.encoded_len(), self.max_message_bytes);
        if size <= limit {
            return Ok(());
        }
        Err(Status::resource_exhausted(format!("the request has {size} bytes and may have {limit}")))
    }

    /// Makes a unary call within the deadline; again while the server is not there, if that is safe.
    pub(crate) async fn unary<Q, R, F>(
        &self,
        safe: bool,
        request: Q,
        call: impl Fn(tonic::Request<Q>) -> F,
    ) -> Result<R, Error>
    where
        Q: Clone + prost::Message,
        F: Future<Output = Result<Response<R>, Status>>,
    {
        self.check(&request)?;
        let deadline = after(self.deadline);
        let backoff = Resume::default();
        let tries = async {
            for failures in 1.. {
                let mut request = tonic::Request::new(request.clone());
                if let Some(deadline) = deadline {
                    request.set_timeout(deadline.duration_since(Instant::now()));
                }
                // A turn is large, and so is the future that sends it.
                match Box::pin(call(request)).await {
                    Ok(response) => return Ok(response.into_inner()),
                    Err(status) if safe && failures < TRIES && status.code() == Code::Unavailable => {
                        sleep(backoff.delay(failures)).await;
                    }
                    Err(status) => return Err(status.into()),
                }
            }
            unreachable!("the last try returns")
        };
        within(deadline, tries).await
    }
}

/// The moment after this time. `None` when that is beyond what a clock can show: never.
pub(crate) fn after(time: Duration) -> Option<Instant> {
    Instant::now().checked_add(time)
}

/// What the future gives, if it does by then.
pub(crate) async fn within<T>(
    deadline: Option<Instant>,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    match deadline {
        None => work.await,
        Some(deadline) => timeout_at(deadline, work).await.map_err(|_| Error::DeadlineExceeded)?,
    }
}

/// What a [`Client`] is made of.
#[derive(Debug, Clone)]
pub struct Builder {
    target: String,
    token: Option<String>,
    deadline: Duration,
    max_message_bytes: usize,
    keep_alive: Option<Duration>,
    #[cfg(feature = "tls")]
    tls: Option<tonic::transport::ClientTlsConfig>,
}

impl Builder {
    /// Sends `authorization: Bearer TOKEN` with every call.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// How long a unary call may take, its further tries included. 30 s unless said.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// The largest message that is sent or taken. 16 MiB unless said.
    #[must_use]
    pub fn max_message_bytes(mut self, bytes: usize) -> Self {
        self.max_message_bytes = bytes;
        self
    }

    /// Asks the server this often whether it is there while a call is open, so that a connection that died without a
    /// word is noticed. Never unless said; servers end connections that ask too often, many above once in 5 minutes.
    #[must_use]
    pub fn keep_alive(mut self, interval: Duration) -> Self {
        self.keep_alive = Some(interval);
        self
    }

    /// Speaks TLS by these settings. An `https` URL alone trusts whom the system trusts.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, settings: tonic::transport::ClientTlsConfig) -> Self {
        self.tls = Some(settings);
        self
    }

    /// The client, not yet connected. Within a Tokio runtime only.
    pub fn build(self) -> Result<Client, SetupError> {
        let mut endpoint = self
            .endpoint()?
            .user_agent(concat!("turnwire-rust/", env!("CARGO_PKG_VERSION")))?
            .connect_timeout(CONNECT_TIME)
            .http2_adaptive_window(true);
        if let Some(interval) = self.keep_alive {
            endpoint = endpoint.http2_keep_alive_interval(interval).keep_alive_timeout(CONNECT_TIME);
        }
        let token = self.token.map(|token| format!("Bearer {token}").parse()).transpose()?;
        let bearer = Bearer::new(token);
        let service = InterceptedService::new(endpoint.connect_lazy(), bearer);
        Ok(Client { service, deadline: self.deadline, max_message_bytes: self.max_message_bytes })
    }

    #[cfg(feature = "tls")]
    fn endpoint(&self) -> Result<Endpoint, SetupError> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let endpoint = Endpoint::from_shared(self.url(scheme))?;
        let plain = self.tls.is_none() && endpoint.uri().scheme_str() != Some("https");
        if plain {
            return Ok(endpoint);
        }
        let trusting = || tonic::transport::ClientTlsConfig::new().with_enabled_roots();
        Ok(endpoint.tls_config(self.tls.clone().unwrap_or_else(trusting))?)
    }

    #[cfg(not(feature = "tls"))]
    fn endpoint(&self) -> Result<Endpoint, SetupError> {
        let endpoint = Endpoint::from_shared(self.url("http"))?;
        if endpoint.uri().scheme_str() == Some("https") {
            return Err(SetupError::NoTls);
        }
        Ok(endpoint)
    }

    fn url(&self, scheme: &str) -> String {
        if self.target.contains("://") { self.target.clone() } else { format!("{scheme}://{}", self.target) }
    }
}

/// Puts the caller's token into each call.
#[derive(Debug, Clone)]
pub struct Bearer(Option<MetadataValue<Ascii>>);

impl Bearer {
    fn new(mut token: Option<MetadataValue<Ascii>>) -> Self {
        if let Some(value) = &mut token {
            value.set_sensitive(true); // Debug does not show it
        }
        Self(token)
    }
}

impl Interceptor for Bearer {
    fn call(&mut self, mut request: tonic::Request<()>) -> Result<tonic::Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.clone());
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn client(deadline: Duration) -> Client {
        Client::builder("127.0.0.1:1").deadline(deadline).build().expect("the address is one")
    }

    /// Makes a call that ends this way `failures` times, then well: how it ended, and after how many tries.
    async fn tries(safe: bool, deadline: Duration, failures: u32, code: Code) -> (Result<u32, Error>, u32) {
        let made = AtomicU32::new(0);
        let call = |_| {
            let number = made.fetch_add(1, Ordering::Relaxed) + 1;
            async move { if number > failures { Ok(Response::new(number)) } else { Err(Status::new(code, "")) } }
        };
        let ended = client(deadline).unary(safe, (), call).await;
        (ended, made.into_inner())
    }

    const LONG: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn a_safe_call_is_tried_four_times_while_the_server_is_not_there() {
        assert!(matches!(tries(true, LONG, 3, Code::Unavailable).await, (Ok(4), 4)));
        assert!(matches!(tries(true, LONG, 4, Code::Unavailable).await, (Err(Error::Turnwire(_)), 4)));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_safe_or_was_answered_is_not_tried_again() {
        assert!(matches!(tries(false, LONG, 1, Code::Unavailable).await, (Err(Error::Turnwire(_)), 1)));
        assert!(matches!(tries(true, LONG, 1, Code::Internal).await, (Err(Error::Turnwire(_)), 1)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_deadline_is_for_all_tries_together() {
        let brief = Duration::from_millis(120);
        assert!(matches!(tries(true, brief, 9, Code::Unavailable).await, (Err(Error::DeadlineExceeded), 2)));
        let forever = client(Duration::MAX).unary(true, (), |_| async { Ok(Response::new(())) }).await;
        assert!(forever.is_ok(), "a deadline beyond all clocks is none");
    }
}
