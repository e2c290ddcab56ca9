#!/bin/sh
# smoke.sh STACK [STEP...]: proves the deployment in a real account. It makes a throw-away stack, uses it, breaks it,
# changes it as operators do, and deletes everything:
#
#   scripts/smoke.sh smoke-1            # all steps, after one question about the price
#   scripts/smoke.sh smoke-1 clean      # only deletes what an interrupted run has left
#
# A second start resumes after the last step that has ended. The name begins with `smoke-`. The script refuses a stack
# without its tag, a table of that name without a stack, and a table with comments that it has not posted.
#
# It needs the AWS command line, curl, jq, openssl, podman, Rust, and credentials of an account without guests. AWS_REGION
# names the region. SMOKE_CONFIRM=yes answers the question. Tests replace the API (SMOKE_URL) and the repair job
# (SMOKE_REPAIR) by those of this machine, and AWS by a simulation.
set -eu
cd "$(dirname "$0")/.."

usage="usage: scripts/smoke.sh smoke-NAME [STEP...]; the name has at most 20 characters"
stack=${1:-}
case $stack in smoke-?*) shift ;; *) echo "$usage" >&2; exit 2 ;; esac
[ ${#stack} -le 20 ] || { echo "$usage" >&2; exit 2; }
tag=pagemark:smoke
work=${CARGO_TARGET_DIR:-target}/smoke/$stack
mkdir -p "$work"
restored=$stack-restored
processor=${PROCESSOR:-arm64}

refuse() { echo "refused: $1" >&2; exit 3; }

# What describes something in AWS; nothing, if it does not exist.
if_there() {
    if "$@" 2>"$work/error"; then return 0; fi
    grep -qE 'does not exist|NotFound|NoSuchBucket' "$work/error" || { cat "$work/error" >&2; return 1; }
}

output() {
    if_there aws cloudformation describe-stacks --stack-name "$stack" \
        --query "Stacks[0].Outputs[?OutputKey=='$1'].OutputValue" --output text
}

resource() {
    if_there aws cloudformation describe-stack-resource --stack-name "$stack" --logical-resource-id "$1" \
        --query StackResourceDetail.PhysicalResourceId --output text
}

account() { aws sts get-caller-identity --query Account --output text; }

# The first commands of a section of a document, without their indentation.
documented() { # FILE HEADING PATTERN: the block whose first line has the pattern
    awk -v heading="## $2" -v pattern="$3" '
        /^## / { here = $0 == heading }
        here && /```sh/ { block = ""; inside = 1; next }
        inside && /```/ { if (block ~ pattern) { printf "%s", block; exit } inside = 0 }
        inside { sub(/^  /, ""); block = block $0 "\n" }' "$1"
}

# Brings the stack in line with the packaged template, as in docs/deploy.md.
deploy() {
    aws cloudformation deploy --template-file target/package/template.yaml --stack-name "$stack" \
        --s3-bucket "$stack-$(account)" --capabilities CAPABILITY_IAM CAPABILITY_AUTO_EXPAND --no-fail-on-empty-changeset \
        --tags "$tag=$stack" --parameter-overrides "$@"
}

# The write token, made once.
token() {
    [ -s "$work/token" ] || (umask 077 && openssl rand -hex 32 >"$work/token")
    cat "$work/token"
}

delete_table() {
    found=$(if_there aws dynamodb describe-table --table-name "$1" --query Table.TableStatus --output text)
    [ -n "$found" ] || return 0
    aws dynamodb update-table --table-name "$1" --no-deletion-protection-enabled >/dev/null
    aws dynamodb wait table-exists --table-name "$1"
    aws dynamodb delete-table --table-name "$1" >/dev/null
    aws dynamodb wait table-not-exists --table-name "$1"
}

url=${SMOKE_URL:-https://$stack.invalid}/api/v1/products/smoke

# curl with the token. Only this script knows the host name: so curl goes to the load balancer, and trusts its certificate
# alone.
client() {
    if [ -z "${SMOKE_URL:-}" ]; then
        balancer=${balancer:-$(output LoadBalancerName)}
        set -- --connect-to "$stack.invalid:443:$balancer" --cacert "$work/certificate.pem" "$@"
    fi
    printf 'header = "Authorization: Bearer %s"\n' "$(token)" |
        curl --config - --silent --show-error --fail-with-body --max-time 20 "$@"
}

# From the posted comments: the address of each page of every filter, and of the totals of each language, with the total
# and the ids that it must show.
expected='
sort_by(.created_at, .id) | reverse | . as $posted
| ([null] + ([.[].language] | unique))[] as $language
| [$posted[] | select($language == null or .language == $language)] as $spoken
| (if $language then "language=\($language)&" else "" end) as $query
| {url: "\($url)/stats\(if $language then "?language=\($language)" else "" end)", shows: [($spoken | length), []]},
  (range(1; 32) as $set
    | [range(1; 6) | select(($set / pow(2; . - 1) | floor) % 2 == 1)] as $ratings
    | [$spoken[] | select(.rating as $rating | $ratings | index($rating))] as $found
    | range(0; [($found | length), 1] | max; 100) as $start
    | ($ratings | map("rating=\(.)&") | add) as $rated
    | {url: "\($url)/comments?\($query)\($rated)page_size=100&page=\($start / 100 + 1)",
       shows: [($found | length), ($found[$start:$start + 100] | map(.id))]})
'

# The repair job. It may find differences, and must repair them.
repair_job() {
    code=0
    ${SMOKE_REPAIR:-scripts/repair-task.sh "$stack"} "$@" >"$work/report" || code=$?
    [ $code = 0 ] || [ $code = 4 ] || { cat "$work/report" >&2; echo "repair-job $*: exit code $code" >&2; return 1; }
}

# --- The steps, in their order ---

confirm() {
    cat <<PRICES
This makes the stack $stack in ${AWS_REGION:-the default region}. At the prices of docs/deploy.md an hour costs \$0.14:
  Redis, two nodes        0.0512
  API, two tasks          0.0395
  load balancer           0.0305
  4 public addresses      0.0200
A run takes some two hours. Requests, the restored table, secrets and logs are below \$0.20 together. So expect half a
dollar. A stack that is left costs some \$100 a month: scripts/smoke.sh $stack clean
PRICES
    [ "${SMOKE_CONFIRM:-}" = yes ] || { printf 'Go on? yes or no: ' && read -r answer && [ "$answer" = yes ]; }
}

# A certificate for a name that no resolver knows.
certified() {
    openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj "/CN=$stack.invalid" \
        -addext "subjectAltName=DNS:$stack.invalid" -addext basicConstraints=critical,CA:FALSE \
        -keyout "$work/key.pem" -out "$work/certificate.pem"
    aws acm import-certificate --certificate "fileb://$work/certificate.pem" --private-key "fileb://$work/key.pem" \
        --query CertificateArn --output text >"$work/certificate"
}

packaged() {
    make package ARCH="$processor"
    aws s3api head-bucket --bucket "$stack-$(account)" >/dev/null 2>&1 || aws s3 mb "s3://$stack-$(account)"
    [ -n "$(if_there aws ecr describe-repositories --repository-names "$stack")" ] ||
        aws ecr create-repository --repository-name "$stack" >/dev/null
    registry=$(account).dkr.ecr.$AWS_REGION.amazonaws.com
    aws ecr get-login-password | podman login --username AWS --password-stdin "$registry"
    platform=linux/$(echo "$processor" | sed s/x86_64/amd64/)
    podman build --platform "$platform" --tag "$registry/$stack:1" target/package/api
    podman push "$registry/$stack:1"
    aws cloudformation package --template-file infra/template.yaml --s3-bucket "$stack-$(account)" \
        --output-template-file target/package/template.yaml >/dev/null
}

deployed() {
    deploy "TableName=$stack" "PublicUrl=https://$stack.invalid" "CertificateArn=$(cat "$work/certificate")" \
        ProtectLoadBalancer=no \
        "Architecture=$processor" "ApiImage=$(account).dkr.ecr.$AWS_REGION.amazonaws.com/$stack:1" \
        "Tokens=smoke/comments:write/sha256:$(printf %s "$(token)" | sha256sum | cut -d ' ' -f 1)"
    repair_job rebuild --apply
}

# Within a day, a second start posts nothing twice: each comment has its key.
filled() {
    number=0
    : >"$work/comments.jsonl"
    while [ $number -lt "${SMOKE_COMMENTS:-200}" ]; do
        language=$(echo "en ko pt-BR" | cut -d ' ' -f $((number % 3 + 1)))
        comment="{\"language\": \"$language\", \"rating\": $((number % 5 + 1)), \"body\": \"Comment $number of a smoke.\"}"
        client --header "Idempotency-Key: smoke-$number" --header 'Content-Type: application/json' --data "$comment" \
            --write-out '\n' "$url/comments" >>"$work/comments.jsonl"
        number=$((number + 1))
    done
}

# Waits until every filter, read to its end, shows exactly what was posted, in order.
compared() { # SECONDS
    ends=$(($(date +%s) + ${1:-300}))
    jq -sc --arg url "$url" "$expected" "$work/comments.jsonl" >"$work/expected"
    jq -r '"url = \"\(.url)\""' "$work/expected" >"$work/urls"
    jq -c .shows "$work/expected" >"$work/shows"
    until client --config "$work/urls" 2>"$work/error" | jq -c '[.total, [.comments[]?.id]]' >"$work/shown" &&
        cmp -s "$work/shows" "$work/shown"; do
        if [ "$(date +%s)" -ge "$ends" ]; then
            diff "$work/shows" "$work/shown" | head -n 5 >&2
            cat "$work/error" >&2
            return 1
        fi
        sleep 1
    done
}

# The comments that have a duplicate under one filter.
duplicates() {
    aws dynamodb query --table-name "$table" --index-name gsi --key-condition-expression 'sk = :k' \
        --expression-attribute-values '{":k": {"S": "PRODUCT#smoke/en/1"}}' --query 'Items[].pk.S' --output text |
        tr '\t' '\n'
}

# Duplicates vanish, as by a foreign script. Pages show their comments all the same; the audit writes them again.
repaired() {
    table=$(output TableName)
    duplicates >"$work/damaged"
    [ -s "$work/damaged" ] || { echo "there is nothing to damage" >&2; return 1; }
    while read -r pk; do
        aws dynamodb delete-item --table-name "$table" \
            --key "{\"pk\": {\"S\": \"$pk\"}, \"sk\": {\"S\": \"PRODUCT#smoke/en/1\"}}"
    done <"$work/damaged"
    compared
    if duplicates | cmp -s - "$work/damaged"; then echo "nothing is damaged" >&2; return 1; fi
    repair_job audit --apply
    duplicates | cmp - "$work/damaged"
    compared
}

failed_over() {
    group=$(resource Redis)
    aws elasticache test-failover --replication-group-id "$group" --node-group-id 0001 >/dev/null
    sleep 60 # The state changes some time after the call.
    aws elasticache wait replication-group-available --replication-group-id "$group"
    repair_job recent --apply
    compared 900
}

# The documented commands, on this stack's table. A table can be restored to five minutes ago at the latest.
restored() {
    if [ "$(output TableName)" != "$restored" ]; then
        delete_table "$restored"
        sleep 600
        eval "$(restore_commands)"
    fi
    repair_job rebuild --apply
    repair_job audit --apply
    deploy RollBackOnAlarm=yes
    compared 900
}

restore_commands() {
    documented docs/operate.md 'Restoring from a backup' restore-table-to-point-in-time |
        sed -e "s/^TABLE=.*/TABLE=$restored/" -e "s/--source-table-name pagemark/--source-table-name $stack/" \
            -e "s/--restore-date-time [^ ]*/--use-latest-restorable-time/"
}

# The stack is deleted last but for the certificate, which it uses. So an interrupted deletion still finds its tag.
clean() {
    quarantine=$(resource QuarantineBucket)
    delete_table "$stack"
    delete_table "$restored"
    for bucket in $quarantine "$stack-$(account)"; do
        if_there aws s3api list-object-versions --bucket "$bucket" --output text \
            --query '[Versions, DeleteMarkers][][].[Key, VersionId]' >"$work/versions"
        while read -r key version; do
            [ "$key" != None ] || continue
            aws s3api delete-object --bucket "$bucket" --key "$key" --version-id "$version" >/dev/null
        done <"$work/versions"
        if_there aws s3api delete-bucket --bucket "$bucket"
    done
    if_there aws ecr delete-repository --repository-name "$stack" --force >/dev/null
    if [ -n "$(made)" ]; then
        aws cloudformation delete-stack --stack-name "$stack"
        aws cloudformation wait stack-delete-complete --stack-name "$stack"
    fi
    for certificate in $(aws acm list-certificates --output text \
        --query "CertificateSummaryList[?DomainName=='$stack.invalid'].CertificateArn"); do
        aws acm delete-certificate --certificate-arn "$certificate"
    done
    rm -rf "$work"
}

# --- What may be touched ---

# `made` and the state of the stack, if it exists.
made() {
    if_there aws cloudformation describe-stacks --stack-name "$stack" --output text \
        --query "Stacks[0].[StackStatus, Tags[?Key=='$tag']|[0].Value]"
}

claim() {
    found=$(made)
    if [ -z "$found" ]; then
        found=$(if_there aws dynamodb describe-table --table-name "$stack" --query Table.TableStatus --output text)
        [ -z "$found" ] || refuse "the table $stack exists, and no stack with the tag $tag that has made it"
        return 0
    fi
    [ "${found##*	}" = "$stack" ] || refuse "the stack $stack exists, and has not the tag $tag=$stack"
    table=$(output TableName)
    [ -n "$table" ] || return 0
    others=$(if_there aws dynamodb scan --table-name "$table" --index-name primaries --select COUNT \
        --output text --query Count \
        --filter-expression 'NOT begins_with(pcd, :smoke)' --expression-attribute-values '{":smoke": {"S": "smoke#"}}' |
        awk '{ sum += $1 } END { print sum + 0 }')
    [ "$others" = 0 ] || refuse "the table $table has $others comments that this script has not posted"
}

claim
[ $# -gt 0 ] || set -- confirm certified packaged deployed filled compared repaired failed_over restored clean
for step in "$@"; do
    case $step in
    confirm | certified | packaged | deployed | filled | compared) ;;
    repaired | failed_over | restored | clean) ;;
    *) echo "there is no step $step" >&2; exit 2 ;;
    esac
    [ ! -e "$work/done-$step" ] || continue
    echo "$step ..." >&2
    # Not in a condition, where `set -e` would not end a step at its first failure.
    $step
    [ "$step" = clean ] || : >"$work/done-$step"
done
echo "$stack: done" >&2
