"""The document's training script, sections 2.1 to 2.6, with the few words that Stable-Baselines3 needs."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("stable_baselines3", reason="needs the extra `sb3`")
pytest.importorskip("tensorboard", reason="the script writes logs for it")
pytest.importorskip("tqdm", reason="the script shows a progress bar")

SCRIPT = '''
import gymnasium as gym
from stable_baselines3 import PPO
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.vec_env import DummyVecEnv
from stable_baselines3.common.evaluation import evaluate_policy
from typing import Callable

# 导入自定义环境类
from serverless_env import ServerlessSchedulingEnv  # 假设环境代码保存在 serverless_env.py

# 定义模拟数据集加载函数（占位符）
def load_dataset() -> Callable:
    """模拟数据集加载逻辑（例如任务队列生成器）"""
    # 实际需替换为真实数据接口（如读取CSV、API等）
    def _task_generator():
        while True:
            # 返回模拟任务参数（CPU、内存、I/O需求等）
            yield {
                "cpu_request": np.random.uniform(0.1, 4.0),
                "mem_request": np.random.uniform(0.1, 8.0),
                "io_network": np.random.uniform(10, 100),
                "io_disk": np.random.uniform(100, 1000),
                "requests": np.random.randint(1, 100)
            }
    return _task_generator()

# 初始化环境
def make_env():
    dataset = load_dataset()  # 获取任务生成器
    env = ServerlessSchedulingEnv(num_nodes=10, num_functions=5)
    env.set_dataset(dataset)  # 假设环境类有 set_dataset 方法注入数据
    return env

env = DummyVecEnv([make_env])  # 向量化环境（支持并行训练）

# 检查环境是否符合 Gymnasium 接口
check_env(env.envs[0], warn=True)

# 定义策略网络架构（可选自定义）
policy_kwargs = {
    "net_arch": [dict(pi=[128, 128], vf=[128, 128])]  # 策略网络和价值网络结构
}

# 初始化 PPO 模型
model = PPO(
    "MlpPolicy",
    env,
    learning_rate=3e-4,
    n_steps=2048,          # 每次迭代的步数
    batch_size=64,         # 批大小
    gamma=0.99,            # 折扣因子
    verbose=1,             # 日志输出等级
    tensorboard_log="./logs/",
    policy_kwargs=policy_kwargs
)

# 训练步数
total_timesteps = 100000
model.learn(
    total_timesteps=total_timesteps,
    tb_log_name="ppo_serverless",
    progress_bar=True
)

# 保存模型
model.save("ppo_serverless_scheduling")

# 创建评估环境
eval_env = DummyVecEnv([make_env])

# 评估策略（10 次轨迹的平均奖励）
mean_reward, std_reward = evaluate_policy(
    model,
    eval_env,
    n_eval_episodes=10,
    deterministic=True
)
print(f"Mean reward: {mean_reward:.2f} ± {std_reward:.2f}")

# 加载模型
model = PPO.load("ppo_serverless_scheduling", env=env)

# 单次推理示例
obs, _ = env.reset()
for _ in range(1000):  # 模拟 1000 步调度
    action, _ = model.predict(obs, deterministic=True)
    obs, reward, done, info = env.step(action)
    if done:
        obs, _ = env.reset()
'''
NEEDED = {
    "from serverless_env import": "from proreus.envs import",
    "obs, _ = env.reset()": "obs = env.reset()",  # a vector environment returns one value
}
"""What no environment can make true: the package's name, and the interface of Stable-Baselines3."""
FLAT = {"num_functions=5)": "num_functions=5, flat=True)"}
"""`MlpPolicy` takes one vector, ..."""
DICT = {'"MlpPolicy"': '"MultiInputPolicy"'}
"""... or the dict goes to the policy that takes dicts."""
SHORT = {
    "n_steps=2048": "n_steps=64",
    "total_timesteps = 100000": "total_timesteps = 128",
    "n_eval_episodes=10": "n_eval_episodes=1",
    "range(1000)": "range(150)",
}


def script(*replacements: dict[str, str]) -> str:
    """The text with these words replaced, each of which must stand there."""
    text = SCRIPT
    for old, new in (pair for words in replacements for pair in words.items()):
        assert old in text, old
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("observed", [FLAT, DICT], ids=["flat", "dict"])
def test_the_documents_script_runs(
    observed: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"np": np}
    with warnings.catch_warnings():
        # Stable-Baselines3 advises to flatten tables and to write `net_arch` another way; it takes
        # both. tqdm warns of its own progress bar.
        warnings.simplefilter("ignore")
        exec(script(NEEDED, observed, SHORT), names)
    assert "Mean reward: -" in capsys.readouterr().out
    assert (tmp_path / "ppo_serverless_scheduling.zip").exists() and list(tmp_path.glob("logs/*/events*"))
    assert names["info"][0]["action_mask"].shape == (10,)


def test_a_dict_needs_the_policy_for_dicts() -> None:
    """The document's `MlpPolicy` with its dict is refused by Stable-Baselines3 itself, in one line."""
    names: dict[str, Any] = {"np": np}
    text = script(NEEDED).partition("# 训练步数")[0].replace("check_env(env.envs[0], warn=True)", "")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match="MultiInputPolicy"):
            exec(text, names)


def test_sac_is_for_other_actions() -> None:
    from stable_baselines3 import SAC

    from proreus.envs import ServerlessSchedulingEnv

    with pytest.raises(AssertionError, match="Discrete"):
        SAC("MlpPolicy", ServerlessSchedulingEnv(flat=True))


@pytest.mark.parametrize(
    ("flat", "policy", "least", "most"),
    [(False, "MultiInputPolicy", 0.9, 1.0), (True, "MlpPolicy", 0.0, 0.1)],
    ids=["dict", "flat"],
)
def test_the_first_layer_sees_the_flat_observation(
    flat: bool, policy: str, least: float, most: float
) -> None:
    """Amounts in their units saturate nearly every tanh unit of an untrained PPO; shares do not."""
    import torch
    from stable_baselines3 import PPO

    from proreus.envs import ServerlessSchedulingEnv
    from tests.worlds.functions.test_document_hooks import document_rows

    env = ServerlessSchedulingEnv(num_nodes=10, num_functions=5, flat=flat, dataset=document_rows())
    model = PPO(policy, env, policy_kwargs={"net_arch": {"pi": [128, 128], "vf": [128, 128]}}, seed=0)
    seen, info = env.reset(seed=0)
    saturated = []
    for _ in range(50):
        with torch.no_grad():
            features = model.policy.extract_features(model.policy.obs_to_tensor(seen)[0])
            units = model.policy.mlp_extractor.policy_net[:2](features)
        saturated.append(float((units.abs() > 0.99).float().mean()))
        seen, _, over, _, info = env.step(int(np.argmax(info["action_mask"])))
        assert not over
    assert least <= np.mean(saturated) <= most
