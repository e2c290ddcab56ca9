"""Executes the state machine of the template with moto's interpreter. Prints each execution and its report as JSON.

Usage: execute.py TEMPLATE ENDPOINT, with one input of an execution per line of standard input. ENDPOINT takes
invocations of functions as AWS Lambda does. Objects are stored in moto's own S3. The interpreter's clock is replaced:
waits before retries are printed, not spent.
"""

import copy
import json
import os
import sys
import time
import types
import uuid

os.environ.update(AWS_DEFAULT_REGION="eu-west-1", AWS_ACCESS_KEY_ID="none", AWS_SECRET_ACCESS_KEY="none")

import boto3
import requests
from botocore.config import Config
from cfnlint.decode import cfn_yaml
from moto.server import ThreadedMotoServer
from moto.stepfunctions.parser import models
from moto.stepfunctions.parser.asl.component.common.retry import retrier_decl
from moto.stepfunctions.parser.asl.component.state.exec.state_task import lambda_eval_utils
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import state_task_service_aws_sdk

BUCKET = "quarantine"


def definition(template):
    """The definition of the state machine, with its substitutions."""
    properties = cfn_yaml.load(template)["Resources"]["BigRepair"]["Properties"]
    text = json.dumps(properties["Definition"])
    substitutions = properties["DefinitionSubstitutions"]
    services = {name: substitutions[name]["Fn::Sub"] for name in ("InvokeFunction", "PutObject")}
    services = {name: arn.replace("${AWS::Partition}", "aws") for name, arn in services.items()}
    for name, value in {"RepairJob": "repair-job", "Bucket": BUCKET, **services}.items():
        assert name in substitutions
        text = text.replace("${" + name + "}", value)
    assert "${" not in text, text
    return text


def execute(machines, objects, text, given):
    """Makes a state machine, and executes it to its end. Returns the execution, and the report that it has stored."""
    name = str(uuid.uuid4())
    role = "arn:aws:iam::123456789012:role/big-repair"
    machine = machines.create_state_machine(name=name, definition=text, roleArn=role)["stateMachineArn"]
    started = machines.start_execution(stateMachineArn=machine, name=name, input=json.dumps(given))
    arn = started["executionArn"]
    while (execution := machines.describe_execution(executionArn=arn))["status"] == "RUNNING":
        time.sleep(0.05)
    key = f"big-repairs/{name}.json"
    kept = [found["Key"] for found in objects.list_objects_v2(Bucket=BUCKET).get("Contents", [])]
    report = json.load(objects.get_object(Bucket=BUCKET, Key=key)["Body"]) if key in kept else None
    ended = {field: execution.get(field) for field in ("status", "error", "cause")}
    return {**ended, "report": report}


def as_json(params, **_):
    """Writes an object's body as JSON, as Step Functions does. moto passes it on as it is."""
    return {**params, "Body": json.dumps(params["Body"])}


def main(template, endpoint):
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    own = f"http://{host}:{port}"
    endpoints = {"lambda": endpoint}
    waits = []

    def client_for(region, service, state_credentials=None):
        patient = Config(retries={"total_max_attempts": 1}, read_timeout=900, parameter_validation=False)
        client = boto3.client(service, region_name=region, endpoint_url=endpoints.get(service, own), config=patient)
        client.meta.events.register("provide-client-params.s3.PutObject", as_json)
        return client

    lambda_eval_utils.boto_client_for = client_for
    state_task_service_aws_sdk.boto_client_for = client_for
    # moto's copy of a state machine would include locks of earlier executions.
    models.copy = types.SimpleNamespace(deepcopy=copy.copy)
    retrier_decl.time = types.SimpleNamespace(sleep=waits.append)
    objects, text = boto3.client("s3", endpoint_url=own), definition(template)
    objects.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    requests.post(f"{own}/moto-api/config", json={"stepfunctions": {"execute_state_machine": True}}, timeout=10)
    machines = boto3.client("stepfunctions", endpoint_url=own)
    executions = [execute(machines, objects, text, json.loads(line)) for line in sys.stdin]
    json.dump({"executions": executions, "waits": waits}, sys.stdout)


main(*sys.argv[1:])
