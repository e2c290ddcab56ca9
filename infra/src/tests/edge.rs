//! Checks of the CDN in front of the load balancer: an option that takes two deployments, and caches nothing wrongly.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Resources, deployed, file, resources};

const CERTIFICATE: (&str, &str) = ("CdnCertificateArn", "arn:aws:acm:us-east-1:1:certificate/1");
const PREFIX_LIST: (&str, &str) = ("CdnPrefixList", "pl-3b927c52");

/// Who reaches the API: the admitted addresses, the load balancer's action without the CDN's header, and the number of
/// proxies.
fn admission(stack: &Resources) -> (Value, Value, Value) {
    let environment = &stack["ApiTask"]["Properties"]["ContainerDefinitions"][0]["Environment"];
    let proxies = environment.as_array().unwrap().iter().find(|entry| entry["Name"] == "PAGEMARK_PROXIES");
    (
        stack["LoadBalancerSecurityGroup"]["Properties"]["SecurityGroupIngress"].clone(),
        stack["HttpsListener"]["Properties"]["DefaultActions"][0]["Type"].clone(),
        proxies.unwrap()["Value"].clone(),
    )
}

fn cdn() -> Value {
    resources()["Cdn"]["Properties"]["DistributionConfig"].clone()
}

/// The behaviours of the CDN: for pages, and for the JSON API.
fn behaviours() -> [Value; 2] {
    let config = cdn();
    let [api] = &config["CacheBehaviors"].as_array().unwrap()[..] else { panic!("one beside the default") };
    [config["DefaultCacheBehavior"].clone(), api.clone()]
}

#[test]
fn without_its_parameters_there_is_no_cdn_and_no_web_acl() {
    let stack = deployed(&[]);
    for name in ["CdnPassword", "CdnRule", "CdnCachePolicy", "Cdn", "WebAclAssociation"] {
        assert!(resources().contains_key(name) && !stack.contains_key(name), "{name}");
    }
    let open = |port: u16| json!({"CidrIp": "0.0.0.0/0", "IpProtocol": "tcp", "FromPort": port, "ToPort": port});
    let (mut admitted, otherwise, proxies) = admission(&stack);
    for rule in admitted.as_array_mut().unwrap() {
        rule.as_object_mut().unwrap().remove("Description");
    }
    assert_eq!(admitted, json!([open(443), open(80)]));
    assert_eq!((otherwise, proxies), (json!("forward"), json!({"Ref": "Proxies"})));
    // A prefix list without a CDN would close the load balancer to everyone.
    assert_eq!(admission(&deployed(&[PREFIX_LIST])), admission(&stack));
}

#[test]
fn while_the_host_name_moves_readers_reach_the_api_with_and_without_the_cdn() {
    let stack = deployed(&[CERTIFICATE]);
    assert!(stack.contains_key("Cdn"));
    assert_eq!(admission(&stack), admission(&deployed(&[])));
}

#[test]
fn with_its_prefix_list_the_load_balancer_admits_the_cdn_and_no_one_else() {
    let stack = deployed(&[CERTIFICATE, PREFIX_LIST]);
    let (admitted, otherwise, proxies) = admission(&stack);
    let [rule] = &admitted.as_array().unwrap()[..] else { panic!("{admitted}") };
    assert_eq!((&rule["SourcePrefixListId"], &rule["FromPort"]), (&json!({"Ref": "CdnPrefixList"}), &json!(443)));
    assert_eq!(rule.get("CidrIp"), None);
    // The CDN and the load balancer each add an address.
    assert_eq!((otherwise, proxies), (json!("fixed-response"), json!("2")));

    // Other distributions have addresses of the list too. So a header decides, with a secret that only this one sends.
    let secret = "{{resolve:secretsmanager:${CdnPassword}:SecretString::${PasswordStage}}}";
    let config = &stack["Cdn"]["Properties"]["DistributionConfig"];
    let [origin] = &config["Origins"].as_array().unwrap()[..] else { panic!("one origin") };
    let sent = &origin["OriginCustomHeaders"][0];
    let rule = &stack["CdnRule"]["Properties"];
    let required = &rule["Conditions"][0]["HttpHeaderConfig"];
    assert_eq!(rule["Actions"][0]["Type"], "forward");
    assert_eq!((&sent["HeaderName"], &sent["HeaderValue"]["Fn::Sub"]), (&required["HttpHeaderName"], &json!(secret)));
    assert_eq!(required["Values"], json!([{ "Fn::Sub": secret }]));
    assert_eq!(origin["CustomOriginConfig"]["OriginProtocolPolicy"], "https-only");
    // A new secret is admitted before it is sent, and beside the old one, which the CDN's places send for a while.
    assert_eq!(stack["Cdn"]["DependsOn"], "CdnRule");
    let changing = deployed(&[CERTIFICATE, PREFIX_LIST, ("OldPasswords", "accept")]);
    let accepted = &changing["CdnRule"]["Properties"]["Conditions"][0]["HttpHeaderConfig"]["Values"];
    assert_eq!(accepted.as_array().unwrap().len(), 2, "{accepted}");
}

#[test]
fn a_web_acl_is_attached_to_what_readers_reach_first() {
    let acl = ("WebAclArn", "arn:aws:wafv2:us-east-1:1:global/webacl/pagemark/1");
    let web_acl = json!({"Ref": "WebAclArn"});
    let behind = deployed(&[CERTIFICATE, acl]);
    assert_eq!(behind["Cdn"]["Properties"]["DistributionConfig"]["WebACLId"], web_acl);
    assert!(!behind.contains_key("WebAclAssociation"));
    let direct = deployed(&[acl]);
    assert_eq!(direct["WebAclAssociation"]["Properties"]["ResourceArn"], json!({"Ref": "LoadBalancer"}));
    assert_eq!(deployed(&[CERTIFICATE])["Cdn"]["Properties"]["DistributionConfig"].get("WebACLId"), None);

    let template: Value = serde_norway::from_str(&file("infra/web-acl.yaml")).unwrap();
    let rules = template["Resources"]["WebAcl"]["Properties"]["Rules"].as_array().unwrap();
    assert_eq!(rules[0]["Statement"]["RateBasedStatement"]["AggregateKeyType"], "IP");
    // The general rule sets refuse bodies above 8 KB, and texts that look like HTML.
    let groups: Vec<&Value> =
        rules.iter().map(|rule| &rule["Statement"]["ManagedRuleGroupStatement"]["Name"]).collect();
    assert_eq!(groups, [&Value::Null, &json!("AWSManagedRulesAmazonIpReputationList")]);
}

/// The names of the parameters of the JSON API in a place (`query`, `header`).
fn parameters(place: &str) -> BTreeSet<String> {
    let description: Value = serde_json::from_str(&file("docs/openapi.json")).unwrap();
    let operations = description["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap());
    let all = operations.flat_map(|(_, operation)| operation["parameters"].as_array().cloned().unwrap_or_default());
    all.filter(|parameter| parameter["in"] == place)
        .map(|parameter| parameter["name"].as_str().unwrap().to_owned())
        .collect()
}

/// The names that the pages for people compare those of a query string with: `Some("page") =>`, `== Some("year")`.
fn parameters_of_pages() -> BTreeSet<String> {
    let sources = ["address", "products", "fragment", "comments"].map(|name| file(&format!("api/src/html/{name}.rs")));
    let names = |source: &String| -> Vec<String> {
        source.split("Some(\"").skip(1).filter_map(|rest| Some(rest.split_once("\")")?.0.to_owned())).collect()
    };
    sources.iter().flat_map(names).collect()
}

#[test]
fn all_that_an_answer_depends_on_belongs_to_the_cache_s_key() {
    let policy = resources()["CdnCachePolicy"]["Properties"]["CachePolicyConfig"].clone();
    let key = &policy["ParametersInCacheKeyAndForwardedToOrigin"];
    let (queries, headers) = (&key["QueryStringsConfig"], &key["HeadersConfig"]["Headers"]);
    let in_key = |name: &str| match queries["QueryStringBehavior"].as_str().unwrap() {
        "all" => true,
        "whitelist" => queries["QueryStrings"].as_array().unwrap().contains(&json!(name)),
        other => panic!("{other}"),
    };
    let (of_api, of_pages) = (parameters("query"), parameters_of_pages());
    assert!(of_api.contains("as_of") && of_pages.contains("year"), "{of_api:?} {of_pages:?}");
    for name in of_api.union(&of_pages) {
        assert!(in_key(name), "answers to other values of {name} would be taken for this one");
    }
    // The headers that the API names in `Vary`. Two further settings add `Accept-Encoding` to the key.
    let vary: BTreeSet<String> = ["json/comment", "http/caching", "http/compression"]
        .map(|name| file(&format!("api/src/{name}.rs")))
        .iter()
        .flat_map(|source| source.lines().filter(|line| line.contains("header::VARY,")))
        .map(|line| line.rsplit('"').nth(1).unwrap().to_lowercase())
        .collect();
    assert_eq!(vary, ["accept-encoding", "authorization"].map(str::to_owned).into());
    assert_eq!(*headers, json!(["Authorization"]));
    for coding in ["Gzip", "Brotli"] {
        assert_eq!(key[format!("EnableAcceptEncoding{coding}")], true, "{coding}");
    }
    // The API decides how long: what it says nothing about is not kept.
    assert_eq!((&policy["MinTTL"], &policy["DefaultTTL"]), (&json!(0), &json!(0)));
    for behaviour in behaviours() {
        assert_eq!(behaviour["CachePolicyId"], json!({"Ref": "CdnCachePolicy"}));
        assert_eq!(behaviour["CachedMethods"], json!(["GET", "HEAD"]), "a write would be answered from the cache");
    }
}

#[test]
fn every_request_that_the_api_takes_passes_the_cdn_with_all_its_headers() {
    let [pages, api] = behaviours();
    let description: Value = serde_json::from_str(&file("docs/openapi.json")).unwrap();
    for (path, operations) in description["paths"].as_object().unwrap() {
        let behaviour = if path.starts_with("/api/") { &api } else { &pages };
        for method in operations.as_object().unwrap().keys() {
            let allowed = behaviour["AllowedMethods"].as_array().unwrap();
            assert!(allowed.contains(&json!(method.to_uppercase())), "{method} {path}");
        }
    }
    // The base path of PublicUrl stands before "/api/", or nothing does.
    assert_eq!((&api["PathPattern"], &api["ViewerProtocolPolicy"]), (&json!("*/api/*"), &json!("https-only")));
    assert_eq!(pages["ViewerProtocolPolicy"], "redirect-to-https");
    // The id of AWS's policy AllViewer. The load balancer's certificate is for the readers' Host.
    for behaviour in [pages, api] {
        assert_eq!(behaviour["OriginRequestPolicyId"], "216adef6-5c7f-47e4-b989-5492eafa07d3");
    }
    assert!(!parameters("header").is_empty());
}

#[test]
fn the_cdn_keeps_no_error() {
    // Those whose time can be set ("CustomErrorResponse"), without 416, which is never kept.
    let codes = [400, 403, 404, 405, 414, 500, 501, 502, 503, 504];
    let never: Vec<Value> = codes.iter().map(|code| json!({"ErrorCode": code, "ErrorCachingMinTTL": 0})).collect();
    assert_eq!(cdn()["CustomErrorResponses"], json!(never));
}
