"""Prints the template as JSON, with its loops over resources repeated and its mappings looked up.

Usage: as_json.py TEMPLATE [PARAMETER=MEMBER,MEMBER...]
"""

import json
import sys

from samtranslator.yaml_helper import yaml_parse


def simplified(value, template, bound):
    """A value with the variables of loops replaced, and with what then has no variable left as plain text."""
    if isinstance(value, str):
        for name, member in bound.items():
            value = value.replace("${" + name + "}", member)
        return value
    if isinstance(value, list):
        return [simplified(inner, template, bound) for inner in value]
    if not isinstance(value, dict):
        return value
    value = {simplified(key, template, bound): simplified(inner, template, bound) for key, inner in value.items()}
    if value.get("Ref") in bound:
        return bound[value["Ref"]]
    if isinstance(value.get("Fn::Sub"), str) and "${" not in value["Fn::Sub"]:
        return value["Fn::Sub"]
    if "Fn::FindInMap" in value:
        mapping, first, second = value["Fn::FindInMap"]
        return template["Mappings"][mapping][first][second]
    return value


def repeated(resources, template, lists, bound):
    """Repeats loops over resources, as the transform AWS::LanguageExtensions does before SAM."""
    result = {}
    for name, resource in resources.items():
        if name.startswith("Fn::ForEach::"):
            variable, members, body = resource
            members = members if isinstance(members, list) else lists[members["Ref"]].split(",")
            for member in members:
                result.update(repeated(body, template, lists, {**bound, variable: member}))
        else:
            result[simplified(name, template, bound)] = simplified(resource, template, bound)
    return result


def load(path, lists):
    with open(path, encoding="utf-8") as file:
        template = yaml_parse(file.read())
    return {**template, "Resources": repeated(template["Resources"], template, lists, {})}


if __name__ == "__main__":
    json.dump(load(sys.argv[1], dict(given.split("=") for given in sys.argv[2:])), sys.stdout)
