#!/bin/sh
# ministack 1.5.33: an item whose time to live has passed is removed from the table within a minute or two. Its stream
# has no REMOVE record of it. DynamoDB documents one, with a userIdentity of the service, so whoever derives data from
# the stream sees expirations there and not here.
#
# Seen: the item is gone, and the stream has the INSERT alone. Software: ministack 1.5.33, boto3 1.43.0.
set -eu
folder=$(mktemp -d)
trap 'kill "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet ministack==1.5.33 boto3==1.43.0
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
GATEWAY_PORT=$port SERVICES=dynamodb,dynamodbstreams IOT_MTLS_ENABLED=0 SFTP_ENABLED=0 DOCKER_HOST=unix:///nowhere \
    "$folder/venv/bin/python" -m hypercorn ministack.app:app --bind "127.0.0.1:$port" --workers 0 >"$folder/log" 2>&1 &
server=$!

"$folder/venv/bin/python" - "$port" <<'PYTHON'
import sys, time
import boto3

session = boto3.session.Session("000000000001", "secret", region_name="us-east-1")
url = f"http://127.0.0.1:{sys.argv[1]}"
table = session.client("dynamodb", endpoint_url=url)
streams = session.client("dynamodbstreams", endpoint_url=url)
for _ in range(100):
    try:
        table.list_tables()
        break
    except Exception:
        time.sleep(0.2)
made = table.create_table(
    TableName="expiring",
    BillingMode="PAY_PER_REQUEST",
    AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
    KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
    StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
)
arn = made["TableDescription"]["LatestStreamArn"]
table.update_time_to_live(
    TableName="expiring", TimeToLiveSpecification={"Enabled": True, "AttributeName": "until"}
)
past = str(int(time.time()) - 60)
table.put_item(TableName="expiring", Item={"pk": {"S": "a"}, "until": {"N": past}})
for _ in range(180):
    if "Item" not in table.get_item(TableName="expiring", Key={"pk": {"S": "a"}}):
        break
    time.sleep(1)
else:
    sys.exit("changed: the item has not expired after 180 s")
time.sleep(5)
events = []
for shard in streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]:
    begin = dict(StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON")
    iterator = streams.get_shard_iterator(**begin)["ShardIterator"]
    records = streams.get_records(ShardIterator=iterator)["Records"]
    events += [record["eventName"] for record in records]
print("the item has expired; the stream has", events)
sys.exit(0 if events == ["INSERT"] else "changed: the stream has other records")
PYTHON
