//! The shard of a stream, as AWS's clients want to see it.
//!
//! The engine keeps the records of a table in one shard that never ends, and names it by the table.
//! Such a name may be too short: the service's model wants 28 to 65 characters, and the SDKs refuse
//! their own call before it is sent. So the shard is shown under a name in the service's form
//! (API reference, `Shard`).

use dynoxide::{
    Database, Result,
    actions::{
        describe_stream::{DescribeStreamRequest, DescribeStreamResponse},
        get_shard_iterator::{GetShardIteratorRequest, GetShardIteratorResponse},
    },
    streams::shard_id,
};
use serde::Deserialize;

/// The one shard of each stream.
const SHARD: &str = "shardId-00000000000000000001-00000001";

#[derive(Deserialize)]
pub(super) struct DescribeStream {
    #[serde(flatten)]
    request: DescribeStreamRequest,
    #[serde(rename = "ShardFilter")]
    filter: Option<ShardFilter>,
}

/// Asks for the children of a shard. There are no other filters.
#[derive(Deserialize)]
struct ShardFilter {
    #[serde(rename = "Type")]
    _kind: FilterKind,
}

#[derive(Deserialize)]
enum FilterKind {
    #[serde(rename = "CHILD_SHARDS")]
    ChildShards,
}

pub(super) fn describe_stream(
    database: &Database,
    asked: DescribeStream,
) -> Result<DescribeStreamResponse> {
    let mut answer = database.describe_stream(asked.request)?;
    let shards = &mut answer.stream_description.shards;
    if asked.filter.is_some() {
        // No shard has children.
        shards.clear();
    }
    for shard in shards {
        shard.shard_id = SHARD.to_owned();
    }
    Ok(answer)
}

pub(super) fn get_shard_iterator(
    database: &Database,
    mut request: GetShardIteratorRequest,
) -> Result<GetShardIteratorResponse> {
    if request.shard_id == SHARD {
        // arn:aws:dynamodb:REGION:ACCOUNT:table/NAME/stream/LABEL
        let table = request.stream_arn.split('/').nth(1).unwrap_or_default();
        request.shard_id = shard_id(table);
    }
    database.get_shard_iterator(request)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{super::operations::answer, *};

    fn answered(database: &Database, operation: &str, request: &Value) -> (u16, Value) {
        let (status, body) = answer(database, operation, request.to_string().as_bytes());
        (status, serde_json::from_slice(&body).unwrap())
    }

    #[test]
    fn a_shard_has_an_id_as_sdks_require_and_is_read_by_it() {
        let database = Database::memory().unwrap();
        let key = json!({ "k": { "S": "v" } });
        let table = json!({
            "TableName": "tab", "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": [{ "AttributeName": "k", "AttributeType": "S" }],
            "KeySchema": [{ "AttributeName": "k", "KeyType": "HASH" }],
            "StreamSpecification": { "StreamEnabled": true, "StreamViewType": "KEYS_ONLY" },
        });
        let (_, created) = answered(&database, "CreateTable", &table);
        let arn = &created["TableDescription"]["LatestStreamArn"];
        answered(
            &database,
            "PutItem",
            &json!({ "TableName": "tab", "Item": key }),
        );
        let (_, described) = answered(&database, "DescribeStream", &json!({ "StreamArn": arn }));
        let id = &described["StreamDescription"]["Shards"][0]["ShardId"];
        assert!((28..=65).contains(&id.as_str().unwrap().len()), "{id}");
        let start = json!({ "StreamArn": arn, "ShardId": id, "ShardIteratorType": "TRIM_HORIZON" });
        let (_, iterator) = answered(&database, "GetShardIterator", &start);
        let (_, read) = answered(&database, "GetRecords", &iterator);
        assert_eq!(read["Records"][0]["dynamodb"]["Keys"], key, "{read}");

        let children =
            json!({ "StreamArn": arn, "ShardFilter": { "Type": "CHILD_SHARDS", "ShardId": id } });
        let (_, described) = answered(&database, "DescribeStream", &children);
        assert_eq!(described["StreamDescription"]["Shards"], json!([]));
        let strange = json!({ "StreamArn": arn, "ShardFilter": { "Type": "OTHER" } });
        assert_eq!(answered(&database, "DescribeStream", &strange).0, 400);
    }
}
