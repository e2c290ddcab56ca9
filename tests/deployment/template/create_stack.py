"""Creates the stack of a template in a simulation of AWS, and prints the result as JSON.

The simulation (moto) knows no SAM, so the template is translated first, by the library that CloudFormation itself uses. Types
that the simulation cannot create are named in the output. It ignores the table's TTL and its point-in-time recovery.
"""

import ast
import contextlib
import copy
import io
import json
import os
import sys
import warnings

os.environ.update(AWS_DEFAULT_REGION="eu-west-1", AWS_ACCESS_KEY_ID="none", AWS_SECRET_ACCESS_KEY="none")
warnings.simplefilter("ignore")

import boto3
from moto import mock_aws
from samtranslator.translator.transform import transform

from as_json import load


SHARDS = {"RedisShards": "0001,0002"}


class NoManagedPolicies:
    """The template names its managed policies in full."""

    def load(self):
        return {}


def stack_on_an_existing_table(plain, parameters):
    """Creates a second stack on a restored table. Returns what concerns the table."""
    dynamodb, stacks, functions = (boto3.client(name) for name in ("dynamodb", "cloudformation", "lambda"))
    restored = dynamodb.create_table(
        TableName="restored",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
    )["TableDescription"]
    parameters = {**parameters, "TableName": "restored", "TableStreamArn": restored["LatestStreamArn"]}
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
    }


def document(policy):
    """The content of a policy. The simulation gives a policy of a template as the text of a Python value."""
    return ast.literal_eval(policy) if isinstance(policy, str) else policy


def statements(resource):
    """The statements in the policies of a function or a role."""
    policies = resource.get("Properties", {}).get("Policies", [])
    documents = [policy.get("PolicyDocument", policy) for policy in policies if "Ref" not in policy]
    return [statement for document in documents for statement in document["Statement"]]


def actions(statements):
    """The actions that statements allow."""
    of_statements = [statement["Action"] for statement in statements]
    return sorted({action for of in of_statements for action in ([of] if isinstance(of, str) else of)})


def roles(plain, template, ids):
    """Each role with what the template names, what the stack has, and its managed policies."""
    iam = boto3.client("iam")
    report = {}
    for name, role in plain["Resources"].items():
        if role["Type"] != "AWS::IAM::Role" or name not in ids:
            continue
        # SAM names the role of a function after the function.
        source = template["Resources"].get(name) or template["Resources"][name.removesuffix("Role")]
        inline = iam.list_role_policies(RoleName=ids[name])["PolicyNames"]
        documents = [iam.get_role_policy(RoleName=ids[name], PolicyName=of)["PolicyDocument"] for of in inline]
        managed = role["Properties"].get("ManagedPolicyArns", [])
        own = [arn["Ref"] for arn in managed if "Ref" in arn]
        versions = [iam.get_policy_version(PolicyArn=ids[of], VersionId="v1")["PolicyVersion"] for of in own]
        report[name] = {
            "named": actions(statements(source)),
            "inline": actions(statement for of in documents for statement in document(of)["Statement"]),
            "policies": [document(of) for of in documents + [version["Document"] for version in versions]],
            # Of the translated template: the simulation attaches no managed policies.
            "managed": own + [arn if isinstance(arn, str) else arn["Fn::Sub"] for arn in managed if "Ref" not in arn],
        }
    return report


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
        if resource["Type"] == "AWS::Serverless::Function":
            # As `aws cloudformation package` does. The simulation does not look into the zips.
            key = os.path.basename(resource["Properties"]["CodeUri"])
            boto3.client("s3").put_object(Bucket=code, Key=key, Body=b"zip")
            resource["Properties"]["CodeUri"] = f"s3://{code}/{key}"
    template = {**template, "Transform": "AWS::Serverless-2016-10-31"}
    certificate = boto3.client("acm").request_certificate(DomainName="comments.example.com")["CertificateArn"]
    site = "https://comments.example.com"
    parameters = {"PublicUrl": site, "CertificateArn": certificate, "ApiImage": "pagemark-api:1", **SHARDS}
    plain = transform(copy.deepcopy(template), parameters, NoManagedPolicies())
    # The simulation has no Redis, and so no address of one, and no function that counts shards.
    text = json.dumps(plain).replace('{"Fn::Length": {"Ref": "RedisShards"}}', "2")
    text = text.replace("${Redis.ConfigurationEndPoint.Address}", "redis.example.com").replace("${Redis}", "redis")
    plain = json.loads(text.replace("${Redis.ConfigurationEndPoint.Port}", "6379"))
    stacks = boto3.client("cloudformation")
    ids = create(stacks, "pagemark", plain, parameters)
    report = {
        "status": stacks.describe_stacks(StackName="pagemark")["Stacks"][0]["StackStatus"],
        "ids": ids,
        "left_out": sorted({r["Type"] for name, r in plain["Resources"].items() if name not in ids and "Condition" not in r}),
        "alarms": sorted(name for name, resource in plain["Resources"].items() if resource["Type"] == "AWS::CloudWatch::Alarm"),
        "mappings": boto3.client("lambda").list_event_source_mappings()["EventSourceMappings"],
        "roles": roles(plain, template, ids),
    }
    return {**report, "on_a_table": stack_on_an_existing_table(plain, parameters)}


source = load(sys.argv[1], SHARDS)
# The simulation prints on standard output what it does not support.
with contextlib.redirect_stdout(io.StringIO()), mock_aws():
    report = created(source)
json.dump(report, sys.stdout, default=str)
