"""What an installation consists of: a pure function from Config, shards and facts about the cluster.

The operator makes the objects, ``kai render`` prints them. Manifests carry neither owners nor versions;
secrets are not among them, since what they hold is made where they are written.
"""

from kai.operands.cdi import CLUSTER_POLICY, uses_cdi
from kai.operands.certificates import (
    PASSWORD_SECRET,
    all_secrets,
    certificates_of,
    filled_by_others,
)
from kai.operands.facts import OPTIONAL_KINDS, Facts
from kai.operands.grants import Grants, beyond, beyond_shard, read_grants
from kai.operands.installation import missing_kinds, operands_of_config, operands_of_shard
from kai.operands.manifests import Manifest
from kai.operands.remarks import remarks
from kai.operands.spec.config import CONFIG_NAME, ConfigSpec, read_config
from kai.operands.spec.problems import InvalidSpec, Problem
from kai.operands.spec.shard import ShardSpec
from kai.operands.spec.shards import Shard, read_shard, rivals

__all__ = [
    "CLUSTER_POLICY",
    "CONFIG_NAME",
    "OPTIONAL_KINDS",
    "PASSWORD_SECRET",
    "ConfigSpec",
    "Facts",
    "Grants",
    "InvalidSpec",
    "Manifest",
    "Problem",
    "Shard",
    "ShardSpec",
    "all_secrets",
    "beyond",
    "beyond_shard",
    "certificates_of",
    "filled_by_others",
    "missing_kinds",
    "operands_of_config",
    "operands_of_shard",
    "read_config",
    "read_grants",
    "read_shard",
    "remarks",
    "rivals",
    "uses_cdi",
]
