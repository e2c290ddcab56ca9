#!/bin/sh
# Runs a command of the repair job inside the network of a stack, as a task beside the API's. When the task has ended,
# prints its output and exits with its exit code:
#
#   scripts/repair-task.sh STACK status
#   scripts/repair-task.sh STACK recent --apply --max-run-time 2h
#   PAGEMARK_LOG=info scripts/repair-task.sh STACK audit --apply    # names what it repairs
#
# It needs the AWS command line, Python 3, and credentials that may describe the stack, run and describe tasks, pass
# their roles and read the log. Ctrl-C ends this script but not the task. `aws ecs stop-task` stops the task, and the
# run stores its position.
set -eu

if [ $# -lt 2 ]; then
    echo "usage: $0 STACK COMMAND [ARGUMENT...], such as: $0 pagemark status" >&2
    exit 2
fi
stack=$1
shift

output() {
    value=$(aws cloudformation describe-stacks --stack-name "$stack" \
        --query "Stacks[0].Outputs[?OutputKey=='$1'].OutputValue" --output text)
    [ -n "$value" ] || { echo "the stack $stack has no output $1" >&2; exit 1; }
    echo "$value"
}

cluster=$(output ClusterName)
definition=$(output RepairTaskDefinition)
subnets=$(output RepairTaskSubnets)
group=$(output RepairTaskSecurityGroupId)
log=$(output RepairTaskLogGroup)
overrides=$(python3 -c '
import json, os, sys
container = {"name": "repair-job", "command": sys.argv[1:]}
if "PAGEMARK_LOG" in os.environ:
    container["environment"] = [{"name": "PAGEMARK_LOG", "value": os.environ["PAGEMARK_LOG"]}]
print(json.dumps({"containerOverrides": [container]}))' "$@")

task=$(aws ecs run-task --cluster "$cluster" --launch-type FARGATE --task-definition "$definition" \
    --network-configuration "awsvpcConfiguration={subnets=[$subnets],securityGroups=[$group],assignPublicIp=ENABLED}" \
    --overrides "$overrides" --query 'tasks[0].taskArn' --output text)
[ "$task" != None ] || { echo "the task could not be started; the events of the cluster $cluster may say why" >&2; exit 1; }
id=${task##*/}
echo "task $id; meanwhile: aws logs tail $log --follow" >&2

of_task() {
    aws ecs describe-tasks --cluster "$cluster" --tasks "$task" --query "tasks[0].$1" --output text
}

# One wait ends after ten minutes, whether or not the task has ended. A call may also fail while the task is still
# running.
status=$(of_task lastStatus || echo unknown)
while [ "$status" != STOPPED ]; do
    if [ "$status" = None ]; then
        echo "it ended more than an hour ago, and AWS no longer describes it; its output:" >&2
        echo "aws logs filter-log-events --log-group-name $log --log-stream-names by-hand/repair-job/$id" >&2
        exit 1
    fi
    aws ecs wait tasks-stopped --cluster "$cluster" --tasks "$task" || sleep 30
    status=$(of_task lastStatus || echo unknown)
done

# The command line pages this call, unlike get-log-events. A long run prints more than one answer holds.
aws logs filter-log-events --log-group-name "$log" --log-stream-names "by-hand/repair-job/$id" \
    --query 'events[].[message]' --output text || echo "it printed nothing" >&2
code=$(of_task 'containers[0].exitCode')
if [ "$code" = None ]; then
    echo "it did not run: $(of_task stoppedReason)" >&2
    exit 1
fi
exit "$code"
