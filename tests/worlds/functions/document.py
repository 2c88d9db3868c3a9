"""Code of the document on workflow placement, word for word where Python takes it.

`HOOKS` are its methods as they stand there; a test makes a class of one or all of them over the environment.
"""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np

from proreus.envs import ServerlessSchedulingEnv

SET_DATASET = '''
    def set_dataset(self, task_generator):
        """注入任务队列生成器（支持迭代器或生成器）"""
        self.task_generator = iter(task_generator)  # 转换为迭代器
        self.task_generator_backup = self.task_generator  # 备份用于重置
'''

GET_NEXT_TASK = '''
    def _get_next_task(self):
        """获取下一个任务参数（优先从数据集，否则随机生成）"""
        if self.task_generator is not None:
            try:
                return next(self.task_generator)
            except StopIteration:
                # 数据集耗尽，重置生成器（避免训练中断，待商榷）
                self.task_generator = iter(self.task_generator_backup)
                return next(self.task_generator)
'''

IS_ACTION_VALID = """
    def _is_action_valid(self, action):
        # 验证节点是否活跃且资源充足
        node_active = self.state["node_active"][action]
        cpu_avail = self.state["node_capacity"][action, 0] - self.state["node_deployed"][action, 0]
        mem_avail = self.state["node_capacity"][action, 1] - self.state["node_deployed"][action, 1]
        cpu_needed = self.state["current_function_request"][0]
        mem_needed = self.state["current_function_request"][1]
        return node_active and (cpu_avail >= cpu_needed) and (mem_avail >= mem_needed)
"""

CALCULATE_REWARD = '''
    def _calculate_reward(self, action):
        """计算调度动作的奖励值"""
        # 从状态中获取当前函数实例的响应时间（RART）和节点单价
        current_rart = self.state["current_function_rart"][0]  # 假设状态中包含 RART
        selected_node_price = self.state["node_price"][action]  # 选中节点的单价

        # 预设参数（可从环境初始化传入）
        beta = 0.7  # 性能权重（超参数，需调优）
        R1_min, R1_max = 0.1, 5.0  # 响应时间合理范围（单位：秒，根据业务设定）

        # 归一化响应时间（RART）
        if (R1_max - R1_min) <= 1e-6:  # 避免除以零
            norm_rart = 0.0
        else:
            norm_rart = (current_rart - R1_min) / (R1_max - R1_min)
            norm_rart = np.clip(norm_rart, 0.0, 1.0)  # 限制在[0,1]

        # 归一化节点成本（动态基于集群节点单价）
        all_prices = self.state["node_price"]
        R2_min, R2_max = np.min(all_prices), np.max(all_prices)
        if (R2_max - R2_min) <= 1e-6:
            norm_cost = 0.0
        else:
            norm_cost = (selected_node_price - R2_min) / (R2_max - R2_min)
            norm_cost = np.clip(norm_cost, 0.0, 1.0)

        reward = -(beta * norm_rart + (1 - beta) * norm_cost)
        return float(reward)
'''

GET_NEXT_STATE = '''
    def _get_next_state(self, action):
        """根据动作生成下一个状态"""
        next_state = self.state.copy()  # 深拷贝当前状态（假设self.state是字典）

        # 提取当前函数实例的资源需求（CPU和内存）
        cpu_request = self.state["current_function_request"][0]
        mem_request = self.state["current_function_request"][1]

        # 更新选中节点的已部署资源
        next_state["node_deployed"][action, 0] += cpu_request  # 已部署CPU增加
        next_state["node_deployed"][action, 1] += mem_request  # 已部署内存增加

        NET_CAPACITY = 1000  # 节点网络带宽总容量（单位：MB/s）
        DISK_CAPACITY = 5000 # 节点磁盘IOPS总容量

        # CPU和内存利用率 = 已部署量 / 节点容量
        next_state["node_utilization"][action, 0] = (
            next_state["node_deployed"][action, 0] /
            self.state["node_capacity"][action, 0]
        )
        next_state["node_utilization"][action, 1] = (
            next_state["node_deployed"][action, 1] /
            self.state["node_capacity"][action, 1]
        )

        # 网络和磁盘I/O利用率 = (原使用量 + 函数需求) / 总容量
        next_state["node_utilization"][action, 2] = (
            (self.state["node_utilization"][action, 2] * NET_CAPACITY +
             self.state["current_function_io"][0]) / NET_CAPACITY
        )
        next_state["node_utilization"][action, 3] = (
            (self.state["node_utilization"][action, 3] * DISK_CAPACITY +
             self.state["current_function_io"][1]) / DISK_CAPACITY
        )

        # 获取新的task实例的数据
        task_params = self._get_next_task()
        # 获取新函数实例的CPU需求、内存需求
        next_state["current_function_request"] = np.array(
            [task_params["cpu_request"], task_params["mem_request"]], dtype=np.float32
        )
        # 获取新函数实例的I/O需求
        next_state["current_function_io"] = np.array(
            [task_params["io_network"], task_params["io_disk"]], dtype=np.float32
        )
        # 获取新函数实例的I/O请求数
        next_state["current_function_requests"] = np.array(
            [task_params["requests"]], dtype=np.int32
        )

        # 假设调度完成后，当前函数的请求数减少（示例简化逻辑，实际需要替换）
        function_id = np.random.randint(0, self.num_functions)  # 随机选择函数类型
        next_state["cluster_function_requests"][function_id] = max(
            0,
            next_state["cluster_function_requests"][function_id] - 1
        )

        # 模拟响应时间：与节点利用率正相关（示例逻辑，实际需要替换）
        node_load = np.mean(next_state["node_utilization"][action, :2])  # 取CPU和内存负载均值
        next_state["current_function_rart"] = np.array([
            0.1 + 4.9 * node_load  # 响应时间在0.1s（负载0%）到5s（负载100%）之间
        ], dtype=np.float32)

        # 若节点资源超限则标记为不活跃（示例逻辑）
        cpu_usage = next_state["node_deployed"][action, 0]
        cpu_capacity = next_state["node_capacity"][action, 0]
        if cpu_usage > cpu_capacity:
            next_state["node_active"][action] = 0

        return next_state
'''

HOOKS = {
    "set_dataset": SET_DATASET,
    "_get_next_task": GET_NEXT_TASK,
    "_is_action_valid": IS_ACTION_VALID,
    "_calculate_reward": CALCULATE_REWARD,
    "_get_next_state": GET_NEXT_STATE,
}


def subclass_with(*hooks: str) -> type[ServerlessSchedulingEnv]:
    """The environment with these methods of the document in place of its own."""
    text = "class Documented(ServerlessSchedulingEnv):\n" + "".join(HOOKS[name] for name in hooks)
    names: dict[str, Any] = {"np": np, "ServerlessSchedulingEnv": ServerlessSchedulingEnv}
    exec(textwrap.dedent(text), names)
    documented: type[ServerlessSchedulingEnv] = names["Documented"]
    return documented
