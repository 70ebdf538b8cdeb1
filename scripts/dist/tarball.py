"""The binary with its pages, completions and licences, for people and for scripts/install.sh."""

from archives import Entry, folder, gz, tar


def write(release):
    top = f"forgerun-{release.version}-{release.platform.target}"
    entries = [folder(top), Entry(f"{top}/forgerun", release.program.contents, 0o755)]
    entries += [
        Entry(f"{top}/LICENSE", release.text("LICENSE")),
        Entry(f"{top}/THIRD-PARTY.txt", release.third_parties),
        Entry(f"{top}/forgerun.service", release.text("deploy/forgerun.service")),
        folder(f"{top}/completions"),
    ]
    names = {"bash": "forgerun.bash", "zsh": "_forgerun", "fish": "forgerun.fish"}
    entries += [Entry(f"{top}/completions/{names[shell]}", text) for shell, text in release.completions.items()]
    entries += [folder(f"{top}/man"), folder(f"{top}/man/man1")]
    entries += [Entry(f"{top}/man/man1/{name}", page) for name, page in release.manual.items()]
    release.write(f"{top}.tar.gz", gz(tar(entries, release.epoch)))
