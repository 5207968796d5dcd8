"""A URDF with everything that an update must not touch, and random ones."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

URDF = """<?xml version="1.0" encoding="utf-8"?>
<!-- a robot > with <inertial> in a comment -->
<robot name="träger" xmlns:x="http://example.org/x">
  <material name="grey"><color rgba="0.5 0.5 0.5 1"/></material>
  <link name="world"/>
  <link name="foot"><inertial><mass value="4"/>
    <inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>
  <link   name='arm'
          x:note="a > b">
    <visual><geometry><mesh filename="package://nowhere/arm.dae"/></geometry></visual>
    <inertial>
      <!-- rotated -->
      <origin xyz="0.1 -0.02 0.03" rpy="0.3 -0.7 1.1"/>
      <mass value="3.5"/>
      <inertia ixx="0.04" ixy="0.001" ixz="-0.002" iyy="0.05" iyz="0.003" izz="0.06"/>
    </inertial>
    <collision><geometry><mesh filename="package://nowhere/arm.stl"/></geometry></collision>
  </link>
  <link name="flange"/>
  <link name="camera">
\t<inertial>
\t\t<origin xyz="0.01 0 0.02" rpy="0 0.4 0"/><mass value="0.4"/>
\t\t<inertia ixx="0.001" ixy="0" ixz="0" iyy="0.0012" iyz="0" izz="0.0011"/>
\t</inertial>
  </link>
  <link name="slide"><inertial><origin xyz="0 0.1 0"/><mass value="1.5"/>
     <inertia ixx="0.01" ixy="0" ixz="0" iyy="0.012" iyz="0" izz="0.013"/></inertial></link>
  <link name="tip"><visual><geometry><box size="1 1 1"/></geometry></visual></link>
  <joint name="mount" type="fixed"><parent link="world"/><child link="foot"/><origin xyz="0 0 0.1"/></joint>
  <joint name="shoulder" type="revolute">
    <parent link="foot"/><child link="arm"/><origin xyz="0 0.1 0.3" rpy="0.2 0.1 -0.4"/><axis xyz="0 1 0"/>
    <limit lower="-2" upper="2" effort="50" velocity="3"/><dynamics damping="0.7" friction="0.2"/>
  </joint>
  <joint name="bolt" type="fixed"><parent link="arm"/><child link="flange"/>
    <origin xyz="0.3 0 0" rpy="0 0.5 0"/></joint>
  <joint name="eye" type="fixed"><parent link="flange"/><child link="camera"/>
    <origin xyz="0 0.05 0" rpy="0.9 0 0"/></joint>
  <joint name="rail" type="prismatic">
    <parent link="flange"/><child link="slide"/><origin xyz="0.1 0 0" rpy="0 0 0.3"/><axis xyz="0.6 0 0.8"/>
    <limit lower="-0.5" upper="0.5" effort="50" velocity="3"/>
  </joint>
  <joint name="wrist" type="continuous"><parent link="slide"/><child link="tip"/>
    <origin xyz="0 0 0.2"/><axis xyz="0 0 1"/></joint>
  <transmission name="t"><type>x</type></transmission>
  <gazebo reference="arm"><link><inertial>not ours</inertial></link></gazebo>
</robot>
<!-- the end -->
"""


def random_rpy(rng: np.random.Generator) -> tuple[float, float, float]:
    """Angles with right ones among them."""
    angles = [rng.choice([0.0, np.pi / 2, -np.pi / 2, np.pi, rng.uniform(-3.0, 3.0)]) for _ in range(3)]
    return float(angles[0]), float(angles[1]), float(angles[2])


def random_urdf(seed: int) -> str:
    """A tree of moving and fixed joints, rotated inertial origins, links without mass, meshes that do not exist."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(4, 10))
    text = [f'<?xml version="1.0"?>\n<robot name="random {seed}">', '<link name="root"/><!-- <link name="x"/> -->']
    for k in range(count):
        A = rng.standard_normal((3, 3))
        S = 0.1 * A @ A.T
        J = np.trace(S) * np.eye(3) - S
        words = " ".join(f'{n}="{float(J[i, j])!r}"' for n, i, j in _ELEMENTS)
        place = f'xyz="{_words(rng.uniform(-0.3, 0.3, 3))}" rpy="{_words(random_rpy(rng))}"'
        inertial = (
            f'<inertial>\n<origin {place}/>\t<mass value="{float(rng.uniform(1, 5))!r}"/><inertia {words} /></inertial>'
        )
        mesh = f'<visual><geometry><mesh filename="package://no/{k}.stl"/></geometry></visual>'
        inside = [mesh, inertial if rng.random() < 0.8 or k == count - 1 else "", "<!-- end > -->"]
        text.append(f'  <link name="l{k}">\n' + "\n".join(inside[i] for i in rng.permutation(3)) + "</link>")
    for k in range(count):
        parent = "root" if k == 0 else f"l{int(rng.integers(max(0, k - 3), k))}"
        kind = str(rng.choice(["revolute", "continuous", "prismatic", "fixed"], p=[0.4, 0.1, 0.2, 0.3]))
        kind = "revolute" if k == count - 1 else kind
        origin = f'<origin xyz="{_words(rng.uniform(-0.3, 0.3, 3))}" rpy="{_words(random_rpy(rng))}"/>'
        axis = f'<axis xyz="{_words(rng.standard_normal(3))}"/><limit lower="-1" upper="1" effort="9" velocity="9"/>'
        ends = f'<parent link="{parent}"/><child link="l{k}"/>'
        text.append(f'  <joint name="j{k}" type="{kind}">{origin}{ends}{axis if kind != "fixed" else ""}</joint>')
    return "\n".join([*text, "</robot>"])


_ELEMENTS = (("ixx", 0, 0), ("ixy", 0, 1), ("ixz", 0, 2), ("iyy", 1, 1), ("iyz", 1, 2), ("izz", 2, 2))


def _words(values: Iterable[float]) -> str:
    return " ".join(repr(float(x)) for x in values)
