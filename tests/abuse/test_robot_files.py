"""Robot files with mistakes: each is named with its place and a remedy, all at once, and nothing is executed."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynid import DynidError, Robot, load_robot
from dynid.cli.output.identifiability import read_standard_values
from dynid.cli.output.recordings import read_motion
from dynid.errors import LoopError, RobotFileError
from dynid.excitation.starts import read_history

TWO = "[[joint]]\n[[joint]]\n"

TABLES = {
    "unknown key": ("[[joint]]\nalpah = 1.0\n", "did you mean 'alpha'"),
    "missing joint": ("[[joint]]\n[[joint]]\nparent = 7\n", "there is no joint 7"),
    "missing joint by name": ('[[joint]]\n[[joint]]\nparent = "arm"\n', "there is no joint 'arm'"),
    "own parent": ("[[joint]]\nparent = 1\n", "its own parent"),
    "cycle": ("[[joint]]\nparent = 2\n[[joint]]\nparent = 1\n", "cycle"),
    "unknown symbol": ('[[joint]]\nd = "D3"\n', "unknown symbol D3"),
    "code": ("[[joint]]\nd = \"__import__('os').getpid()\"\n", "Call is not allowed"),
    "degrees": ("[[joint]]\nalpha = -90\n", 'angles = "deg"'),
    "degrees in limits": ("[[joint]]\nlimits = { position = [-160, 160] }\n", 'angles = "deg"'),
    "limits reversed": ("[[joint]]\nlimits = { position = [1, -1] }\n", "not below"),
    "negative velocity": ("[[joint]]\nlimits = { velocity = -1.0 }\n", "must be positive"),
    "self coupling": (TWO + '[[coupling]]\npassive = "2"\nof = { "2" = 1.0 }\n', "with itself"),
    "coupling of nothing": (TWO + '[[coupling]]\npassive = "9"\nof = { "1" = 1.0 }\n', "no joint '9'"),
    "coupling cycle": (
        TWO + '[[joint]]\n[[coupling]]\npassive = "1"\nof = { "2" = 1.0 }\n'
        '[[coupling]]\npassive = "2"\nof = { "1" = 1.0 }\n',
        "depends on itself",
    ),
    "all passive": ('[[joint]]\n[[coupling]]\npassive = "1"\nof = {}\n', "at least one active"),
    "passive twice": (
        TWO + '[[coupling]]\npassive = "2"\nof = { "1" = 1.0 }\n[[coupling]]\npassive = "2"\nof = { "1" = 2.0 }\n',
        "passive twice",
    ),
    "closure counts": (TWO + '[[closure]]\nframes = ["1", "2"]\nkeep = ["x", "y"]\npassive = ["2"]\n', "as many"),
    "closure frames": (TWO + '[[closure]]\nframes = ["1", "9"]\nkeep = ["x"]\npassive = ["2"]\n', "no joint '9'"),
    "closure direction": (TWO + '[[closure]]\nframes = ["1", "2"]\nkeep = ["w"]\npassive = ["2"]\n', "closure 1, keep"),
    "same names": ('[[joint]]\nname = "a"\n[[joint]]\nname = "a"\n', "two joints"),
    "link of nothing": ("[[joint]]\n[link.arm]\nmass = 1.0\n", "no joint has this name"),
    "negative mass": ("[[joint]]\n[link.1]\nmass = -1.0\n", "negative"),
    "both ways": ("[[joint]]\n[link.1]\nmass = 1.0\nM = 1.0\n", "not both"),
    "com alone": ("[[joint]]\n[link.1]\ncom = [0, 0, 0]\n", "need mass"),
    "inertia shape": ("[[joint]]\n[link.1]\nmass = 1.0\ncom = [0, 0, 0]\ninertia = [1, 2]\n", "six numbers"),
    "zero and value": ('[[joint]]\n[link.1]\nMX = 1.0\nzero = ["MX"]\n', "remove one"),
    "unknown zero": ('[[joint]]\n[link.1]\nzero = ["MQ"]\n', "link.1, zero"),
    "text for a number": ('gravity = ["a", 0, 0]\n[[joint]]\n', "gravity"),
    "nan": ("[[joint]]\nd = nan\n", "joint 1, d"),
    "no joints": ("joint = []\n", "joint"),
    "only fixed": ('[[joint]]\ntype = "fixed"\n', "no joint moves"),
    "wrong type": ('[[joint]]\ntype = "ball"\n', "joint 1, type"),
    "not toml": ("[[joint\n", "not a TOML file"),
    "thousands of digits": (f"[[joint]]\nd = {'9' * 5000}\n", "not a TOML file"),
    "letters of the other convention": ('convention = "standard"\n[[joint]]\nr = 1.0\n', "not a letter"),
    "bad symbol": ('[symbols]\n"a b" = 1.0\n[[joint]]\n', "cannot be a symbol"),
}


DEEP = 20_000


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("robot.toml", f"joint = {'[' * DEEP}{']' * DEEP}"),
        ("robot.urdf", f"<robot>{'<link>' * DEEP}{'</link>' * DEEP}</robot>"),
        ("robot.xml", f"<mujoco><worldbody>{'<body>' * DEEP}{'</body>' * DEEP}</worldbody></mujoco>"),
    ],
)
def test_files_that_are_nested_without_end(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(RobotFileError, match=r"recursion|nested"):
        load_robot(tmp_path / name)


def test_values_motions_and_histories_that_are_nested_without_end(tmp_path: Path) -> None:
    file = tmp_path / "deep.json"
    file.write_text("[" * DEEP + "]" * DEEP)
    robot = load_robot("gautier3")
    for read in (
        lambda: read_standard_values(file, robot),
        lambda: read_motion(file, robot),
        lambda: read_history(file),
    ):
        with pytest.raises(DynidError, match="JSON"):
            read()


@pytest.mark.parametrize("mistake", TABLES)
def test_mistakes_in_tables(mistake: str, tmp_path: Path) -> None:
    text, words = TABLES[mistake]
    file = tmp_path / "robot.toml"
    file.write_text(text)
    with pytest.raises(RobotFileError) as caught:
        load_robot(file)
    assert words in str(caught.value)
    assert str(file) in str(caught.value)


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    file = tmp_path / "robot.toml"
    file.write_text('[[joint]]\nalpha = -90\nd = "D9"\nlimits = { position = [1, -1] }\n[[joint]]\nparent = 5\n')
    with pytest.raises(RobotFileError) as caught:
        load_robot(file)
    assert len(caught.value.problems) == 4


URDFS = {
    "not xml": ("hello", "not an XML file"),
    "another root": ("<html/>", "expected <robot>"),
    "no links": ('<robot name="r"/>', "no <link>"),
    "no joints": ('<robot name="r"><link name="a"/></robot>', "no <joint>"),
    "two roots": ('<robot name="r"><link name="a"/><link name="b"/></robot>', "one root"),
    "missing child": (
        '<robot name="r"><link name="a"/><joint name="j" type="revolute"><parent link="a"/>'
        '<child link="z"/></joint></robot>',
        "does not exist",
    ),
    "planar joint": (
        '<robot name="r"><link name="a"/><link name="b"/><joint name="j" type="planar"><parent link="a"/>'
        '<child link="b"/></joint></robot>',
        "not supported",
    ),
    "cycle": (
        '<robot name="r"><link name="a"/><link name="b"/>'
        '<joint name="i" type="revolute"><parent link="a"/><child link="b"/></joint>'
        '<joint name="j" type="revolute"><parent link="b"/><child link="a"/></joint></robot>',
        "cycle",
    ),
    "entities": (
        '<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><robot name="&x;"><link name="a"/></robot>',
        "DOCTYPE",
    ),
    "text in numbers": (
        '<robot name="r"><link name="a"/><link name="b"/><joint name="j" type="revolute"><parent link="a"/>'
        '<child link="b"/><origin rpy="a b c"/></joint></robot>',
        "joint 'j'",
    ),
    "only fixed": (
        '<robot name="r"><link name="a"/><link name="b"/><joint name="j" type="fixed"><parent link="a"/>'
        '<child link="b"/></joint></robot>',
        "no moving joint",
    ),
    "mimics nobody": (
        '<robot name="r"><link name="a"/><link name="b"/><joint name="j" type="revolute"><parent link="a"/>'
        '<child link="b"/><mimic joint="q"/></joint></robot>',
        "no other joint",
    ),
}


@pytest.mark.parametrize("mistake", URDFS)
def test_mistakes_in_urdfs(mistake: str, tmp_path: Path) -> None:
    text, words = URDFS[mistake]
    file = tmp_path / "robot.urdf"
    file.write_text(text)
    with pytest.raises(DynidError) as caught:
        load_robot(file)
    assert words in str(caught.value)


def test_billion_laughs_are_not_laughed(tmp_path: Path) -> None:
    file = tmp_path / "robot.xml"
    file.write_text('<!DOCTYPE m [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]><mujoco model="&b;"/>')
    with pytest.raises(RobotFileError, match="DOCTYPE"):
        load_robot(file)


MJCFS = {
    "ball joint": ('<body name="a"><joint name="j" type="ball"/><geom size="1" mass="1"/></body>', "ball joints"),
    "global coordinates": (
        '<body name="a"><joint name="j"/></body></worldbody><compiler coordinate="global"/><worldbody>',
        "global coordinates are not read",
    ),
    "nothing moves": ('<body name="a"><geom size="1" mass="1"/></body>', "nothing can move"),
}


@pytest.mark.parametrize("mistake", MJCFS)
def test_mistakes_in_mjcfs(mistake: str, tmp_path: Path) -> None:
    body, words = MJCFS[mistake]
    file = tmp_path / "robot.xml"
    file.write_text(f"<mujoco><worldbody>{body}</worldbody></mujoco>")
    with pytest.raises(DynidError, match=words):
        load_robot(file)


@pytest.mark.parametrize(
    ("name", "words"), [("a.xacro", "xacro"), ("a.txt", "unknown kind"), ("a.stl", "unknown kind")]
)
def test_other_kinds_of_files(name: str, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("x")
    with pytest.raises(DynidError, match=words):
        load_robot(tmp_path / name)


def test_a_folder_is_not_a_robot(tmp_path: Path) -> None:
    with pytest.raises(DynidError, match="folder"):
        load_robot(tmp_path)


def test_rows_with_mistakes() -> None:
    with pytest.raises(RobotFileError, match="not a letter"):
        Robot.from_mdh([{"alpha": 0.0, "a": 1.0}])
    with pytest.raises(DynidError, match="gravity"):
        Robot.from_mdh([{}], gravity=(0, 0))


def test_a_loop_that_cannot_close_names_the_sample() -> None:
    import numpy as np

    from dynid import Motion, regressor

    robot = load_robot("slider_crank")
    short = Robot(**{**{k: getattr(robot, k) for k in robot.__dataclass_fields__}})
    rows = [{"d": 0.0}, {"d": 0.3}, {"parent": 0, "type": "prismatic", "gamma": np.pi / 2, "alpha": np.pi / 2}]
    from dataclasses import replace

    from dynid.robot.transform import freeze

    closure = replace(short.closures[0], points=(freeze([0.2, 0, 0]), freeze([0, 0, 0])), start=freeze([0.0, 0.5]))
    tight = replace(Robot.from_mdh(rows), closures=(closure,))
    q = np.array([[0.1], [1.5]])
    with pytest.raises(LoopError, match="sample 1"):
        regressor(tight, Motion(np.arange(2.0), q, q, q))


def test_a_chain_that_native_parsers_cannot_walk_is_refused(tmp_path: Path) -> None:
    links = "".join(f'<link name="l{k}"/>' for k in range(4001))
    joints = "".join(
        f'<joint name="j{k}" type="continuous"><parent link="l{k}"/><child link="l{k + 1}"/></joint>'
        for k in range(4000)
    )
    (tmp_path / "chain.urdf").write_text(f'<robot name="chain">{links}{joints}</robot>')
    with pytest.raises(RobotFileError) as caught:
        load_robot(tmp_path / "chain.urdf")
    assert [problem.code for problem in caught.value.problems] == ["too_many_joints"]
