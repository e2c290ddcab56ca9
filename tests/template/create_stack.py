"""Creates the stack of a template in a simulation of AWS, and prints the result as JSON.

The simulation (moto) knows no SAM, so the template is translated first, by the library that CloudFormation itself uses. Types
that the simulation cannot create are named in the output. It ignores the table's TTL and its point-in-time recovery.
"""

import ast
import json
import os
import re
import sys
import warnings
import io
import contextlib

os.environ.update(AWS_DEFAULT_REGION="eu-west-1", AWS_ACCESS_KEY_ID="none", AWS_SECRET_ACCESS_KEY="none")
warnings.simplefilter("ignore")

import boto3
from moto import mock_aws
from samtranslator.translator.transform import transform
from samtranslator.yaml_helper import yaml_parse


class NoManagedPolicies:
    """The template names its managed policies in full."""

    def load(self):
        return {}


def stack_on_an_existing_table(plain, parameters):
    """Creates a second stack on a restored table, behind a CDN. Returns what concerns the table and the CDN."""
    dynamodb, stacks, functions, balancers = (
        boto3.client(name) for name in ("dynamodb", "cloudformation", "lambda", "elbv2")
    )
    restored = dynamodb.create_table(
        TableName="restored",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
    )["TableDescription"]
    parameters = {**parameters, "TableName": "restored", "TableStreamArn": restored["LatestStreamArn"]}
    parameters |= {"CdnCertificateArn": "arn:aws:acm:us-east-1:1:certificate/1", "CdnPrefixList": "pl-4fa04526"}
    ids = create(stacks, "restored", plain, parameters)
    return {
        "ids": ids,
        "stream": restored["LatestStreamArn"],
        "sources": [
            functions.get_event_source_mapping(UUID=ids[name])["EventSourceArn"]
            for name in ("StreamWriterMapping", "PageIndexerMapping")
        ],
        "tables": [
            functions.get_function_configuration(FunctionName=ids[name])["Environment"]["Variables"]["PAGEMARK_TABLE"]
            for name in ("StreamWriter", "RepairJob")
        ],
        "listener_rules": balancers.describe_rules(ListenerArn=ids["HttpsListener"])["Rules"],
    }


def repeated(template, parameters):
    """Repeats loops over resources, as the transform AWS::LanguageExtensions does before SAM."""
    resources = {}
    for name, resource in template["Resources"].items():
        if not name.startswith("Fn::ForEach::"):
            resources[name] = resource
            continue
        variable, members, body = resource
        for member in parameters[members["Ref"]].split(","):
            resources.update(json.loads(json.dumps(body).replace("${" + variable + "}", member)))
    text = json.dumps({**template, "Resources": resources, "Transform": "AWS::Serverless-2016-10-31"})
    return json.loads(re.sub(r'{"Fn::Length": {"Ref": "(\w+)"}}', lambda of: str(len(parameters[of[1]].split(","))), text))


def document(policy):
    """The content of a policy. The simulation gives a policy of a template as the text of a Python value."""
    return ast.literal_eval(policy) if isinstance(policy, str) else policy


def actions_named(template):
    """The actions that the template itself names, by role. SAM names a function's role after the function."""
    named = {}
    for name, resource in template["Resources"].items():
        role = name + "Role" if resource["Type"] == "AWS::Serverless::Function" else name
        for policy in resource["Properties"].get("Policies", []) if "Properties" in resource else []:
            for statement in policy.get("PolicyDocument", policy)["Statement"]:
                actions = statement["Action"]
                named.setdefault(role, set()).update([actions] if isinstance(actions, str) else actions)
    return {role: sorted(actions) for role, actions in named.items()}


def create(stacks, stack, plain, parameters):
    """Creates a stack. Returns the id of each resource."""
    stacks.create_stack(
        StackName=stack,
        TemplateBody=json.dumps(plain),
        Parameters=[{"ParameterKey": name, "ParameterValue": value} for name, value in parameters.items()],
        Capabilities=["CAPABILITY_IAM"],
    )
    resources = stacks.list_stack_resources(StackName=stack)["StackResourceSummaries"]
    return {resource["LogicalResourceId"]: resource["PhysicalResourceId"] for resource in resources}


def created(template):
    code = "code"
    boto3.client("s3").create_bucket(Bucket=code, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    for name, resource in template["Resources"].items():
        if not name.startswith("Fn::") and resource["Type"] == "AWS::Serverless::Function":
            # As `aws cloudformation package` does. The simulation does not look into the zips.
            key = os.path.basename(resource["Properties"]["CodeUri"])
            boto3.client("s3").put_object(Bucket=code, Key=key, Body=b"zip")
            resource["Properties"]["CodeUri"] = f"s3://{code}/{key}"
    shards = {"RedisShards": "0001,0002"}
    template = repeated(template, shards)
    named = actions_named(template)
    certificate = boto3.client("acm").request_certificate(DomainName="comments.example.com")["CertificateArn"]
    site = "https://comments.example.com"
    parameters = {"PublicUrl": site, "CertificateArn": certificate, "ApiImage": "pagemark-api:1", **shards}
    parameters["CanaryToken"] = "the-canary-s-token"
    plain = transform(template, parameters, NoManagedPolicies())
    # The simulation has no Redis, and so no address of one.
    text = json.dumps(plain).replace("${Redis.ConfigurationEndPoint.Address}", "redis.example.com").replace("${Redis}", "redis")
    plain = json.loads(text.replace("${Redis.ConfigurationEndPoint.Port}", "6379"))
    # It has no CDN either.
    del plain["Outputs"]["CdnName"]
    stacks = boto3.client("cloudformation")
    ids = create(stacks, "pagemark", plain, parameters)
    dynamodb, functions, iam, events = (boto3.client(name) for name in ("dynamodb", "lambda", "iam", "events"))
    report = {
        "status": stacks.describe_stacks(StackName="pagemark")["Stacks"][0]["StackStatus"],
        "ids": ids,
        "left_out": sorted({r["Type"] for name, r in plain["Resources"].items() if name not in ids and "Condition" not in r}),
        "table": dynamodb.describe_table(TableName="pagemark")["Table"],
        "alarms": sorted(name for name, resource in plain["Resources"].items() if resource["Type"] == "AWS::CloudWatch::Alarm"),
        "mappings": functions.list_event_source_mappings()["EventSourceMappings"],
        "functions": functions.list_functions()["Functions"],
        "rules": [
            {**rule, "targets": events.list_targets_by_rule(Rule=rule["Name"])["Targets"]}
            for rule in events.list_rules()["Rules"]
        ],
        "roles": {
            role["RoleName"]: {
                "policies": [
                    document(iam.get_role_policy(RoleName=role["RoleName"], PolicyName=name)["PolicyDocument"])
                    for name in iam.list_role_policies(RoleName=role["RoleName"])["PolicyNames"]
                ],
            }
            for role in iam.list_roles()["Roles"]
        },
        "named": named,
        # Of the translated template: the simulation attaches no managed policies.
        "managed": {
            name: [arn if isinstance(arn, str) else arn["Fn::Sub"] for arn in role["Properties"].get("ManagedPolicyArns", [])]
            for name, role in plain["Resources"].items()
            if role["Type"] == "AWS::IAM::Role"
        },
    }
    return {**report, "on_a_table": stack_on_an_existing_table(plain, parameters)}


with open(sys.argv[1], encoding="utf-8") as file:
    source = yaml_parse(file.read())
# The simulation prints on standard output what it does not support.
with contextlib.redirect_stdout(io.StringIO()), mock_aws():
    report = created(source)
json.dump(report, sys.stdout, default=str)
