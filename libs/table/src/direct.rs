//! The first attempt of a page's Query, without the SDK's orchestrator, which costs about as much as
//! reading the answer (ADR 97).
//!
//! The SDK decides everything that depends on the account and the network. The first Query goes its
//! way. A [`Learner`] takes a [`Route`] from it, which counts once that Query has succeeded. The
//! Queries that follow are made of the route.
//!
//! **Invariant:** only an answer with status 200 counts. After anything else the SDK asks the same:
//! it alone retries, classifies, corrects clocks and words errors. What was learnt is then
//! forgotten, and nothing is learnt for [`PAUSE`].

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use aws_sigv4::{
    http_request::{SignableBody, SignableRequest, SigningSettings, sign},
    sign::v4,
};
use aws_smithy_runtime_api::{
    box_error::BoxError,
    client::{
        auth::AuthSchemeId,
        http::{HttpClient, HttpConnector, HttpConnectorSettings, SharedHttpConnector},
        identity::{Identity, ResolveCachedIdentity},
        interceptors::{Intercept, context::BeforeTransmitInterceptorContextRef},
        orchestrator::{HttpRequest, HttpResponse},
        runtime_components::{GetIdentityResolver, RuntimeComponents},
    },
    http::StatusCode,
};
use aws_smithy_types::{body::SdkBody, config_bag::ConfigBag, timeout::TimeoutConfig};
use model::{
    Order,
    planted::{self, Bug},
};
use parking_lot::Mutex;
use serde::Serialize;
use serde_dynamo::Item;
use tokio::time::Instant;

/// How long all Queries go the SDK's way after a failure. So a busy or broken service gets one more
/// attempt in this time, not one for each Query.
const PAUSE: Duration = Duration::from_secs(5);

/// Healthy answers take much less.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);

const HEADERS: [(&str, &str); 2] = [
    ("content-type", "application/x-amz-json-1.0"),
    ("x-amz-target", "DynamoDB_20120810.Query"),
];

/// A Query for the entries of an index under one sort key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DirectQuery<'query> {
    pub(crate) table: &'query str,
    pub(crate) index: &'query str,
    pub(crate) sk: &'query str,
    pub(crate) order: Order,
    pub(crate) limit: usize,
    pub(crate) start: Option<&'query Item>,
}

/// The Query as the API of DynamoDB has it.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Body<'query> {
    table_name: &'query str,
    index_name: &'query str,
    key_condition_expression: &'query str,
    expression_attribute_values: BTreeMap<&'query str, Text<'query>>,
    scan_index_forward: bool,
    limit: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    exclusive_start_key: Option<&'query Item>,
    return_consumed_capacity: &'query str,
}

#[derive(Serialize)]
struct Text<'text> {
    #[serde(rename = "S")]
    text: &'text str,
}

impl DirectQuery<'_> {
    fn body(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(&Body {
            table_name: self.table,
            index_name: self.index,
            key_condition_expression: "sk = :sk",
            expression_attribute_values: [(":sk", Text { text: self.sk })].into(),
            scan_index_forward: self.order == Order::Oldest,
            limit: self.limit,
            exclusive_start_key: self.start,
            return_consumed_capacity: "TOTAL",
        })
    }
}

/// The direct way of one client. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Direct(Arc<Mutex<State>>);

#[derive(Debug, Default)]
enum State {
    /// The next Query of the SDK that succeeds is learnt from.
    #[default]
    Unknown,
    Known(Arc<Route>),
    /// A direct Query has failed. Nothing is learnt until then.
    Paused(Instant),
}

/// What the SDK uses for a Query: its URL, what it is signed with, and the SDK's own HTTP client and
/// cache of credentials.
#[derive(Debug)]
struct Route {
    url: String,
    /// `None` where the SDK signs nothing.
    scope: Option<Scope>,
    connector: SharedHttpConnector,
    components: RuntimeComponents,
    /// Resolvers of credentials get it from the SDK. They read nothing from it.
    config: ConfigBag,
}

/// What a signature is valid for, besides a day.
#[derive(Debug, PartialEq, Eq)]
struct Scope {
    region: String,
    service: String,
}

impl Scope {
    /// The scope of the header `Authorization`; `None` if that is made in a way that is not known here.
    fn parse(authorization: &str) -> Option<Self> {
        let (_, scope) = authorization
            .strip_prefix("AWS4-HMAC-SHA256 ")?
            .split_once("Credential=")?;
        // Such as AKIDEXAMPLE/20261129/eu-central-1/dynamodb/aws4_request.
        let mut scope = scope.split_once(',')?.0.split('/').skip(2);
        Some(Self {
            region: scope.next()?.to_owned(),
            service: scope.next()?.to_owned(),
        })
    }
}

impl Direct {
    /// The answer, with its body read. `None`: the SDK must ask.
    pub(crate) async fn ask(&self, query: &DirectQuery<'_>) -> Option<HttpResponse> {
        let route = self.route()?;
        let answer = tokio::time::timeout(ATTEMPT_TIMEOUT, route.send(query)).await;
        let failure = match answer {
            Ok(Ok(answer)) => return Some(answer),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer in {ATTEMPT_TIMEOUT:?}"),
        };
        self.failed(&failure);
        if planted::has(Bug::FailedQueryIsEmpty) {
            return Some(HttpResponse::new(
                StatusCode::try_from(200).ok()?,
                SdkBody::from("{}"),
            ));
        }
        None
    }

    /// The answer of a direct Query was of no use.
    pub(crate) fn failed(&self, failure: &str) {
        tracing::debug!(failure, "a Query is asked again by the SDK");
        *self.0.lock() = State::Paused(Instant::now() + PAUSE);
    }

    fn route(&self) -> Option<Arc<Route>> {
        if let State::Known(route) = &*self.0.lock() {
            Some(Arc::clone(route))
        } else {
            None
        }
    }

    /// What learns from the next Query of the SDK; `None` while nothing is to be learnt.
    pub(crate) fn learner(&self) -> Option<Learner> {
        let wants_to_learn = match &*self.0.lock() {
            State::Unknown => true,
            State::Known(_) => false,
            State::Paused(until) => *until <= Instant::now(),
        };
        wants_to_learn.then(Learner::default)
    }
}

impl Route {
    async fn send(&self, query: &DirectQuery<'_>) -> Result<HttpResponse, BoxError> {
        let body = query.body()?;
        let mut request = HttpRequest::new(SdkBody::from(body.as_slice()));
        request.set_method("POST")?;
        request.set_uri(self.url.as_str())?;
        for (name, value) in HEADERS {
            request.headers_mut().insert(name, value);
        }
        if let Some(scope) = &self.scope {
            let identity = self.identity().await?;
            self.sign(&mut request, &body, scope, &identity)?;
        }
        let answer = self.connector.call(request).await?;
        let status = answer.status().as_u16();
        if status != 200 {
            return Err(format!("status {status}").into());
        }
        Ok(answer)
    }

    /// The credentials, from the SDK's cache or its resolver.
    async fn identity(&self) -> Result<Identity, BoxError> {
        let scheme = AuthSchemeId::from("sigv4");
        let resolver = self.components.identity_resolver(scheme);
        let resolver = resolver.ok_or("no credentials are configured")?;
        let cache = self.components.identity_cache();
        cache
            .resolve_cached_identity(resolver, &self.components, &self.config)
            .await
    }

    fn sign(
        &self,
        request: &mut HttpRequest,
        body: &[u8],
        scope: &Scope,
        identity: &Identity,
    ) -> Result<(), BoxError> {
        let time = self.components.time_source().ok_or("no clock")?;
        let parameters = v4::SigningParams::builder()
            .identity(identity)
            .region(&scope.region)
            .name(&scope.service)
            .time(time.now())
            .settings(SigningSettings::default())
            .build()?;
        let body = SignableBody::Bytes(body);
        let signable = SignableRequest::new("POST", &self.url, HEADERS.into_iter(), body)?;
        let (signature, _) = sign(signable, &parameters.into())?.into_parts();
        for (name, value) in signature.headers() {
            request
                .headers_mut()
                .insert(name.to_owned(), value.to_owned());
        }
        Ok(())
    }
}

/// Learns from the Query that the SDK is about to send. Clones share what was learnt.
#[derive(Debug, Clone, Default)]
pub(crate) struct Learner(Arc<Mutex<Option<Route>>>);

impl Learner {
    /// What was learnt, once the Query has succeeded.
    pub(crate) fn keep(self, direct: &Direct) {
        if let Some(route) = self.0.lock().take() {
            *direct.0.lock() = State::Known(Arc::new(route));
        }
    }
}

impl Intercept for Learner {
    fn name(&self) -> &'static str {
        "Learner"
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        components: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        *self.0.lock() = Route::of(context.request(), components, config);
        Ok(())
    }
}

impl Route {
    /// `None` if the request is signed in a way that is not known here.
    fn of(
        request: &HttpRequest,
        components: &RuntimeComponents,
        config: &ConfigBag,
    ) -> Option<Self> {
        let scope = match request.headers().get("authorization") {
            Some(authorization) => Some(Scope::parse(authorization)?),
            None => None,
        };
        let mut settings = HttpConnectorSettings::builder();
        if let Some(timeouts) = config.load::<TimeoutConfig>() {
            settings.set_connect_timeout(timeouts.connect_timeout());
            settings.set_read_timeout(timeouts.read_timeout());
        }
        let client = components.http_client()?;
        Some(Self {
            url: request.uri().to_owned(),
            scope,
            connector: client.http_connector(&settings.build(), components),
            components: components.clone(),
            config: ConfigBag::base(),
        })
    }
}

#[cfg(test)]
mod tests {
    use aws_smithy_runtime_api::client::{
        http::{HttpConnectorFuture, SharedHttpClient, http_client_fn},
        result::ConnectorError,
    };
    use model::{Cd, FilterKey, ProductId, Timestamp};
    use serde_json::Value;

    use super::*;
    use crate::{PageQuery, Table, TableConfig};

    /// What the service answers next. Each answer is given once; then it answers pages.
    #[derive(Debug, Clone, Copy)]
    enum Answer {
        Page,
        Garbage,
        Cut,
        Throttled,
        Lost,
        Never,
    }

    /// A service that keeps what it was asked.
    #[derive(Debug, Clone, Default)]
    struct Service {
        asked: Arc<Mutex<Vec<Asked>>>,
        next: Arc<Mutex<Vec<Answer>>>,
    }

    #[derive(Debug, Clone)]
    struct Asked {
        url: String,
        headers: BTreeMap<String, String>,
        body: Value,
    }

    impl Asked {
        fn is_direct(&self) -> bool {
            !self.headers.contains_key("amz-sdk-invocation-id")
        }

        /// The algorithm, the access key, the day, the region and the service.
        fn credential(&self) -> &str {
            self.headers["authorization"].split_once(',').unwrap().0
        }
    }

    impl HttpConnector for Service {
        fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
            let headers = request.headers().iter();
            let asked = Asked {
                url: request.uri().to_owned(),
                headers: headers
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .collect(),
                body: serde_json::from_slice(request.body().bytes().unwrap()).unwrap(),
            };
            self.asked.lock().push(asked);
            let next = self.next.lock().pop().unwrap_or(Answer::Page);
            HttpConnectorFuture::new(async move {
                match next {
                    Answer::Page => Ok(answer(200, r#"{"Items":[],"Count":0}"#)),
                    Answer::Garbage => Ok(answer(200, r#"{"Items":7}{"#)),
                    Answer::Cut => Ok(answer(200, r#"{"Items":["#)),
                    Answer::Throttled => Ok(answer(400, r##"{"__type":"x#ThrottlingException"}"##)),
                    Answer::Lost => Err(ConnectorError::io("lost".into())),
                    Answer::Never => std::future::pending().await,
                }
            })
        }
    }

    fn answer(status: u16, body: &'static str) -> HttpResponse {
        HttpResponse::new(status.try_into().unwrap(), SdkBody::from(body))
    }

    impl Service {
        async fn table(&self) -> Table {
            let config = TableConfig::new("comments", Some("http://KEY@127.0.0.1:1".to_owned()));
            let service = SharedHttpConnector::new(self.clone());
            let client: SharedHttpClient = http_client_fn(move |_, _| service.clone());
            Table::connect_through(&config, client).await
        }

        fn take(&self) -> Vec<Asked> {
            std::mem::take(&mut *self.asked.lock())
        }

        fn will(&self, answer: Answer) {
            self.next.lock().push(answer);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_pause_nothing_is_sent_directly_before_the_sdk_has_succeeded() {
        let service = Service::default();
        let table = service.table().await;
        let page = query(false, Order::Newest);
        table.page(&page).await.unwrap();
        service.will(Answer::Lost);
        table.page(&page).await.unwrap();
        tokio::time::advance(PAUSE).await;
        service.take();
        for _ in 0..3 {
            service.will(Answer::Throttled);
        }
        table.page(&page).await.unwrap_err();
        table.page(&page).await.unwrap();
        table.page(&page).await.unwrap();
        let asked: Vec<bool> = service.take().iter().map(Asked::is_direct).collect();
        assert_eq!(asked, [false, false, false, false, true]);
    }

    fn query(start: bool, order: Order) -> PageQuery {
        let cd = Cd {
            created_at: Timestamp::parse("2026-01-02T03:04:05Z").unwrap(),
            id: model::CommentId::parse("c1").unwrap(),
        };
        PageQuery {
            key: FilterKey::primary(ProductId::parse("a\"b").unwrap()),
            order,
            limit: 21,
            start: start.then_some(cd),
        }
    }

    #[tokio::test]
    async fn a_direct_query_asks_what_the_sdk_asks() {
        for order in [Order::Newest, Order::Oldest] {
            for start in [false, true] {
                let service = Service::default();
                let table = service.table().await;
                for _ in 0..2 {
                    table.page(&query(start, order)).await.unwrap();
                }
                let asked = service.take();
                let [sdk, direct] = asked.as_slice() else {
                    panic!("{asked:?}");
                };
                assert!(!sdk.is_direct() && direct.is_direct());
                assert_eq!((&direct.url, &direct.body), (&sdk.url, &sdk.body));
                for name in ["content-type", "x-amz-target"] {
                    assert_eq!(direct.headers[name], sdk.headers[name]);
                }
                assert_eq!(direct.credential(), sdk.credential());
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_sdk_asks_again_whatever_a_direct_query_is_answered_and_for_a_while_alone() {
        for answer in [
            Answer::Garbage,
            Answer::Cut,
            Answer::Throttled,
            Answer::Lost,
            Answer::Never,
        ] {
            let service = Service::default();
            let table = service.table().await;
            let page = query(false, Order::Newest);
            table.page(&page).await.unwrap();
            service.will(answer);
            table.page(&page).await.unwrap();
            table.page(&page).await.unwrap();
            tokio::time::advance(PAUSE).await;
            table.page(&page).await.unwrap();
            table.page(&page).await.unwrap();
            let asked: Vec<bool> = service.take().iter().map(Asked::is_direct).collect();
            let expected = [false, true, false, false, false, true];
            assert_eq!(asked, expected, "{answer:?}");
        }
    }
}
