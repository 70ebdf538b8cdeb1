"""The parts of the binary as CycloneDX 1.5: the crates that are compiled in, and the C libraries that come with them."""

import json
import tomllib
import uuid
from datetime import datetime, timezone

from release import ROOT

# C libraries in the binary, by the crate that brings their source.
LIBRARIES = {"rdkafka-sys": "librdkafka", "libsqlite3-sys": "sqlite", "libmimalloc-sys": "mimalloc",
             "aws-lc-sys": "aws-lc", "libz-sys": "zlib", "openssl-sys": "openssl"}


def component(package, checksums):
    name, version = package["name"], package["version"]
    described = {
        "type": "application" if name == "forgerun-server" else "library",
        "bom-ref": f"pkg:cargo/{name}@{version}",
        "name": name,
        "version": version,
        "purl": f"pkg:cargo/{name}@{version}",
        "scope": "required",
    }
    if package["license"]:
        # Older crates write a slash, which means OR.
        described["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if (name, version) in checksums:
        described["hashes"] = [{"alg": "SHA-256", "content": checksums[name, version]}]
    if name in LIBRARIES:
        described["components"] = [{"type": "library", "name": LIBRARIES[name], "bom-ref": f"{name}/{LIBRARIES[name]}"}]
    return described


def write(release):
    locked = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    checksums = {(entry["name"], entry["version"]): entry["checksum"] for entry in locked if "checksum" in entry}
    ref = lambda id: "pkg:cargo/{name}@{version}".format(**release.packages[id][0])
    components = [component(package, checksums) for package, _ in release.packages.values()]
    main = next(part for part in components if part["name"] == "forgerun-server")
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(release.epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": main,
        },
        "components": [part for part in components if part is not main],
        "dependencies": [
            {"ref": ref(id), "dependsOn": [ref(needed) for needed in needs]}
            for id, (_, needs) in release.packages.items()
        ],
    }
    name = f"forgerun-{release.version}-{release.platform.target}"
    document["serialNumber"] = uuid.uuid5(uuid.NAMESPACE_URL, name + json.dumps(document)).urn
    release.write(f"{name}.cdx.json", (json.dumps(document, indent=1) + "\n").encode())
